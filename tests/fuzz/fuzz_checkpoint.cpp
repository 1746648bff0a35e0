// A checkpoint of any bytes: it is read whole, or DataError says why not.
#include <cstdint>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include <mn/checkpoint/format/checkpoint_file.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>

namespace {

/// The index's checksum stops almost every input: half of them get the right one, so that what lies behind is reached.
void put_checksum_right(std::string& file) {
  constexpr std::size_t kHeadBytes = 24, kCrcOffset = 16;
  std::uint64_t index_bytes = 0;
  if (file.size() < kHeadBytes) return;
  std::memcpy(&index_bytes, file.data() + sizeof index_bytes, sizeof index_bytes);
  const std::string_view index = std::string_view(file).substr(kHeadBytes, index_bytes);
  const std::uint32_t crc = mn::crc32c(std::as_bytes(std::span(index)));
  std::memcpy(file.data() + kCrcOffset, &crc, sizeof crc);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int fd = memfd_create("checkpoint", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  std::string file(reinterpret_cast<const char*>(data), size);
  if (size % 2 == 0) put_checksum_right(file);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, file.data(), file.size(), 0) != static_cast<ssize_t>(size)) return 0;
  try {
    mn::CheckpointFile(path).check();
  } catch (const mn::DataError&) {
  }
  return 0;
}
