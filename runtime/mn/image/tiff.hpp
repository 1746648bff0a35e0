/// Decoding of TIFFs by libtiff, where mn is built with it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Decodes one TIFF or BigTIFF after another: the first image of each, gray, color, palette, CMYK, YCbCr or Lab, of up
/// to 16 bits, uncompressed or packed by LZW, Deflate, PackBits, JPEG or CCITT. One thread at a time.
///
/// Transparency is dropped, not blended; 16 bits become their high 8. Errors are DataError without the name of the
/// sample, which the caller knows: damaged or truncated data, other kinds of TIFF, an mn that was built without
/// libtiff. The decoder can be used on after an error.
class TiffDecoder {
 public:
  TiffDecoder();
  ~TiffDecoder();
  TiffDecoder(const TiffDecoder&) = delete;
  TiffDecoder& operator=(const TiffDecoder&) = delete;

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
