/// Decoders that each read one image format. ImageDecoder chooses among them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Decodes images of one format, one by one, and reuses its memory. For one thread at a time.
///
/// Throws DataError if the data is damaged or truncated, or the image is of a kind that the decoder does not support.
/// The error's text lacks the sample's name. After an error the decoder can be used for the next image.
class FormatDecoder {
 public:
  FormatDecoder() = default;
  virtual ~FormatDecoder() = default;
  FormatDecoder(const FormatDecoder&) = delete;
  FormatDecoder& operator=(const FormatDecoder&) = delete;

  /// Reads the header, and allocates no memory for the pixels. `bytes` must live until decode() returns.
  virtual const ImageHeader& open(std::span<const std::byte> bytes) = 0;

  /// Decodes `region` of the stored image, before any turn by its orientation. Call it once after each open(). `out`
  /// may get more pixels than the region; returns the region's position in `out`. A JPEG may be scaled down, but the
  /// region keeps at least min_width × min_height pixels. Other formats are never scaled.
  virtual Box decode(const Region& region, int min_width, int min_height, Image& out) = 0;
};

[[nodiscard]] std::unique_ptr<FormatDecoder> make_jpeg_decoder();
[[nodiscard]] std::unique_ptr<FormatDecoder> make_png_decoder();
[[nodiscard]] std::unique_ptr<FormatDecoder> make_bmp_decoder();
[[nodiscard]] std::unique_ptr<FormatDecoder> make_pnm_decoder();
/// Without libwebp or libtiff in the build, open() throws an error that names the library.
[[nodiscard]] std::unique_ptr<FormatDecoder> make_webp_decoder();
[[nodiscard]] std::unique_ptr<FormatDecoder> make_tiff_decoder();

}  // namespace mn::data
