// A WebP of any bytes, through the whole of decoding.
#include <cstdint>

#include <mn/core/error.hpp>
#include <mn/image/image_decoder.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mn::data;
  static ImageDecoder decoder;
  static Image image;
  try {
    const ImageHeader header = decoder.open(std::as_bytes(std::span(data, size)));
    if (std::int64_t{header.width} * header.height > 1 << 18) return 0;  // only to be quick
    (void)decoder.decode({0, 0, header.width, header.height}, 1, 1, image);
  } catch (const mn::DataError&) {
  }
  return 0;
}
