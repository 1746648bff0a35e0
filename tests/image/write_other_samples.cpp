// write_other_samples WEBPS TIFFS: small files of every kind, into two folders that exist. The corpora of fuzz_webp and
// fuzz_tiff are made so.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/image/jpeg_samples.hpp"
#include "tests/image/other_samples.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: write_other_samples WEBPS TIFFS\n");
    return 2;
  }
  for (const auto& [name, bytes] : mn::data::other_samples(mn::data::draw_image(21, 17))) {
    const std::filesystem::path path = std::filesystem::path(argv[name.ends_with(".webp") ? 1 : 2]) / name;
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) {
      std::fprintf(stderr, "cannot write %s\n", path.c_str());
      return 1;
    }
  }
  return 0;
}
