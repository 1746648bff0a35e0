/// The decoders of single formats, behind ImageDecoder.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Decodes images of one format, one by one. Keeps its memory; one thread at a time.
///
/// Throws DataError, without the sample's name, for damaged or truncated data, and for kinds of images that are not
/// decoded. The decoder works on after an error.
class FormatDecoder {
 public:
  FormatDecoder() = default;
  virtual ~FormatDecoder() = default;
  FormatDecoder(const FormatDecoder&) = delete;
  FormatDecoder& operator=(const FormatDecoder&) = delete;

  /// Reads the header of the stored image. Allocates no memory of the image's size. `bytes` must live until decode()
  /// returns.
  virtual const ImageHeader& open(std::span<const std::byte> bytes) = 0;

  /// Decodes `region` of the opened image, in stored coordinates; once for each open(). `out` may hold more than the
  /// region; returns the region's position in `out`. Only a JPEG is scaled down, as long as the region keeps
  /// min_width × min_height pixels.
  virtual Box decode(const Region& region, int min_width, int min_height, Image& out) = 0;
};

[[nodiscard]] std::unique_ptr<FormatDecoder> make_jpeg_decoder();
[[nodiscard]] std::unique_ptr<FormatDecoder> make_png_decoder();
/// In builds without libwebp or libtiff, the decoder's open() throws an error that names the library.
[[nodiscard]] std::unique_ptr<FormatDecoder> make_webp_decoder();
[[nodiscard]] std::unique_ptr<FormatDecoder> make_tiff_decoder();

}  // namespace mn::data
