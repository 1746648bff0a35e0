/// Decoding of PNGs by libpng.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Decodes one PNG after another, of every color type and depth, interlaced or not. One thread at a time.
///
/// Pixels are those of Pillow's convert("RGB"), and so of torchvision's ImageFolder: transparency is dropped, not
/// blended; gamma, profiles and significant bits are ignored; 16 bits become their high 8. Only gray of 16 bits
/// differs: Pillow clips it at 255, which leaves most images white.
///
/// Errors are DataError without the name of the sample, as JpegDecoder's: damaged or truncated data, also where only a
/// checksum differs. The decoder can be used on after an error.
class PngDecoder {
 public:
  PngDecoder();
  ~PngDecoder();
  PngDecoder(PngDecoder&&) noexcept;
  PngDecoder& operator=(PngDecoder&&) noexcept;

  /// Reads the header of the image as it is stored. Allocates no memory of the image's size. `bytes` must live until
  /// decode() returns.
  const ImageHeader& open(std::span<const std::byte> bytes);

  /// The whole image as it is stored, once for each open(); ImageDecoder checks that.
  void decode(Image& out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn::data
