// decode_bench FOLDER ROUNDS: images per second of CPU time on one thread, from JPEG bytes in memory to a random
// resized crop of 224 × 224, mirrored in half of the cases. Prints "crop X" (RGB bytes) and "input X" (normalized
// floats, what a network gets). decode_vs_torchvision runs it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/image/augment.hpp>

namespace {

using mn::data::CropOptions;
using mn::data::ImageAugmenter;
using mn::data::PixelLayout;

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<std::string> read_folder(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> files;
  for (const auto& path : paths) files.push_back(mn::read_file(path));
  return files;
}

/// Each file once in each round; what `one(bytes, round, index)` costs in all.
template <class One>
double images_per_second(const std::vector<std::string>& files, int rounds, const One& one) {
  const double begin = thread_seconds();
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      one(std::as_bytes(std::span(files[i])), round, static_cast<std::int64_t>(i));
    }
  }
  return rounds * static_cast<double>(files.size()) / (thread_seconds() - begin);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: decode_bench FOLDER ROUNDS\n");
    return 2;
  }
  const auto files = read_folder(argv[1]);
  const int rounds = std::atoi(argv[2]);
  ImageAugmenter augmenter(CropOptions{}, {}, PixelLayout::kNhwc);
  mn::data::AugmentChoices choices;
  std::vector<float> input(std::size_t{3} * 224 * 224);
  const double crops = images_per_second(files, rounds, [&](auto bytes, int round, std::int64_t i) {
    (void)augmenter.augment(bytes, 0, round, i, choices);
  });
  const double inputs = images_per_second(
      files, rounds, [&](auto bytes, int round, std::int64_t i) { augmenter(bytes, 0, round, i, input); });
  std::printf("crop %.1f\ninput %.1f\n", crops, inputs);
  return 0;
}
