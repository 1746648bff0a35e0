// loader_bench DIR THREADS SECONDS: the whole input path, from shards of JPEGs to normalized batches of 32 random
// resized crops of 224 × 224, with so many worker threads. Prints images per second.
// loader_bench DIR THREADS first: milliseconds from a new loader to its first batch of 256, the least of five.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/loader/image_transform.hpp>
#include <mn/loader/loader.hpp>

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

mn::DataLoader make_loader(const char* folder, std::int64_t batchsize, int threads) {
  return {mn::open_dataset(folder),
          {.batchsize = batchsize,
           .shuffle = true,
           .drop_last = true,
           .workers = threads,
           .prefetch = 2 * threads,
           .transform = mn::image_transform({}, {}, mn::data::PixelLayout::kNhwc)}};
}

double images_per_second(const char* folder, int threads, double seconds) {
  mn::DataLoader loader = make_loader(folder, 32, threads);
  while (loader.next()) {  // an epoch to warm up
  }
  std::int64_t images = 0;
  const auto begin = Clock::now();
  while (since(begin) < seconds) {
    while (const auto batch = loader.next()) images += batch->samples;
  }
  return static_cast<double>(images) / since(begin);
}

double ms_to_the_first(const char* folder, int threads) {
  double least = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    (void)make_loader(folder, 256, threads).next();
    least = std::min(least, 1e3 * since(begin));
  }
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: loader_bench DIR THREADS SECONDS|first\n");
    return 2;
  }
  const int threads = std::atoi(argv[2]);
  try {
    const bool first = std::strcmp(argv[3], "first") == 0;
    std::printf("%.1f\n",
                first ? ms_to_the_first(argv[1], threads) : images_per_second(argv[1], threads, std::atof(argv[3])));
    return 0;
  } catch (const mn::Error& error) {
    std::fprintf(stderr, "loader_bench: %s\n", error.what());
    return 1;
  }
}
