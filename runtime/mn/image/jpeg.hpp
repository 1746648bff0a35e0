/// Decoding of JPEGs by libjpeg-turbo: only the part that is needed, no larger than needed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Decodes one JPEG after another. Keeps its memory; one thread at a time.
///
/// Errors are DataError without the name of the sample, which the caller knows: damaged or truncated data. libjpeg's
/// warnings of lost data count as damage. The decoder can be used on after an error.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  /// Reads the header of the image as it is stored. Allocates no memory of the image's size. `bytes` must live until
  /// decode() returns.
  const ImageHeader& open(std::span<const std::byte> bytes);

  /// Decodes the part of the opened image that holds `region`, a part of the stored image, once for each open().
  /// The image is scaled to 1/1, 1/2, 1/4 or 1/8 in the transform domain: the smallest at which the region has
  /// at least min_width × min_height pixels (1/1 if it never has). `out` may hold more than the region; returns where
  /// the region lies in it. Gray and CMYK become RGB. At 1/1 the pixels are those of a decode of the whole image.
  Box decode(const Region& region, int min_width, int min_height, Image& out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn::data
