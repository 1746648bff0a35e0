// A manifest file of any bytes: the seal must keep everything but a true manifest from libhdf5.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/data/manifest.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path folder = "/dev/shm/mn-fuzz-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / mn::data::kManifestName, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    (void)mn::data::read_manifest(folder);
  } catch (const mn::DataError&) {
  }
  std::filesystem::remove_all(folder);
  return 0;
}
