// A BMP, PPM or PGM of any bytes, through the whole of decoding.
#include "tests/fuzz/fuzz_image.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return mn::fuzz::decode_input(data, size, 1 << 18);
}
