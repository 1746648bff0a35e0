// A JPEG of any bytes, through the whole of decoding and augmentation.
#include <cstdint>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/image/augment.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mn::data;
  static ImageAugmenter random({.mode = CropMode::kRandomResized, .size = 32}, {}, PixelLayout::kNchw,
                               {.randaugment = 2, .erasing = 0.5});
  static ImageAugmenter center({.mode = CropMode::kCenter, .size = 32, .resize = 40}, {}, PixelLayout::kNhwc);
  static std::vector<float> out(3 * 32 * 32);
  const auto bytes = std::as_bytes(std::span(data, size));
  static ImageDecoder decoder;
  try {
    const ImageHeader header = decoder.open(bytes);
    if (std::int64_t{header.width} * header.height > 1 << 22) return 0;  // only to be quick
    random(bytes, 1, 0, static_cast<std::int64_t>(size), out);
    center(bytes, 1, 0, 0, out);
  } catch (const mn::DataError&) {
  }
  return 0;
}
