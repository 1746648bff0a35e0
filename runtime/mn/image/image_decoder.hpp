/// The decoder for images in shards: JPEG, PNG, WebP, TIFF, BMP, PPM and PGM, recognized by the image's first bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

class FormatDecoder;

/// By default, larger images are rejected, because a header of a few bytes could ask for gigabytes.
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 27;
inline constexpr int kMaxImageSide = 65535;  ///< pixels: /data/hwc of a shard holds 16 bits

/// Decodes images, one by one, and reuses its memory. Only one thread at a time may use an object.
///
/// Throws DataError if the data is damaged or truncated, or the image has too many pixels. If mn cannot decode the
/// format, or this build lacks the format's library, throws a DataError that names the format. The errors' texts lack
/// the sample's name. After an error the decoder can be used for the next image.
class ImageDecoder {
 public:
  /// Makes a decoder that rejects images of more than `max_pixels`.
  explicit ImageDecoder(std::int64_t max_pixels = kMaxImagePixels);
  /// Not inline, because it needs the complete types of the decoders.
  ~ImageDecoder();

  /// Reads the header, with width and height of the upright image. `bytes` must live until decode() returns.
  const ImageHeader& open(std::span<const std::byte> bytes);

  /// Decodes `region` of the opened image, given in coordinates of the upright image. Call it once after each open().
  /// `out` may get more pixels than the region; returns the region's position in `out`. A JPEG is scaled down to 1/2,
  /// 1/4 or 1/8 if the region keeps at least min_width × min_height pixels. PNGs, WebPs and TIFFs are decoded as a
  /// whole. Throws ArgumentError if the region lies outside of the image, or if open() has not been called since the
  /// last decode().
  Box decode(const Region& region, int min_width, int min_height, Image& out);

 private:
  FormatDecoder& decoder_of(ImageFormat format) { return *decoders_[static_cast<std::size_t>(format)]; }

  std::int64_t max_pixels_;
  std::array<std::unique_ptr<FormatDecoder>, 6> decoders_;  // [formats]
  ImageHeader header_;
  bool opened_ = false;  // whether decode() may be called
  Image turned_;         // the decoded image as stored, before it is made upright
};

/// Decodes the whole image at full size. Throws DataError as ImageDecoder does.
[[nodiscard]] Image decode_image(std::span<const std::byte> bytes);

}  // namespace mn::data
