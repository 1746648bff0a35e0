// A PNG of any bytes, through the whole of decoding. Checksums are made right after each mutation: else nearly every
// input would end at the first of them.
#include <algorithm>
#include <cstdint>

#include <zlib.h>

#include "tests/fuzz/fuzz_image.hpp"

namespace {

std::uint32_t read_big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

void seal_chunks(std::uint8_t* data, std::size_t size) {
  for (std::size_t at = 8; at + 12 <= size;) {
    const std::size_t length = read_big_endian(data + at);
    if (length > size - at - 12) return;
    const auto sum = static_cast<std::uint32_t>(crc32(0, data + at + 4, static_cast<uInt>(length + 4)));
    for (int i = 0; i < 4; ++i) data[at + 8 + length + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned) {
  size = LLVMFuzzerMutate(data, size, max_size);
  constexpr std::uint8_t kMagic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  std::copy_n(kMagic, std::min(size, sizeof kMagic), data);
  seal_chunks(data, size);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return mn::fuzz::decode_input(data, size, 1 << 20);
}
