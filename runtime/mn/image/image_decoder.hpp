/// The decoder for all images in shards: JPEG, PNG, WebP and TIFF, recognized by content, never by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

class FormatDecoder;

/// Larger images are rejected: a header of a few bytes could otherwise ask for gigabytes.
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 27;
inline constexpr int kMaxImageSide = 65535;  ///< pixels: /data/hwc of a shard holds 16 bits

/// Decodes images, one by one. Keeps its memory; one thread at a time.
///
/// Throws DataError, without the sample's name, which the caller knows, for damaged or truncated data, too many pixels,
/// and an unknown format or a format missing in this build, with the format's name. The decoder works on after an
/// error.
class ImageDecoder {
 public:
  /// Opens no image yet.
  ImageDecoder();
  /// Not inline: needs the decoders' types.
  ~ImageDecoder();

  /// Reads the header; width and height are the upright image's. `bytes` must live until decode() returns.
  const ImageHeader& open(std::span<const std::byte> bytes);

  /// Decodes `region` of the opened image, in upright coordinates; once for each open(). `out` may hold more than the
  /// region; returns the region's position in `out`. A JPEG is decoded in part, and scaled down to 1/2, 1/4 or 1/8 as
  /// long as the region keeps min_width × min_height pixels; all further formats are decoded as a whole. Throws
  /// ArgumentError for a region outside of the image, and without a new open().
  Box decode(const Region& region, int min_width, int min_height, Image& out);

 private:
  FormatDecoder& decoder_of(ImageFormat format) { return *decoders_[static_cast<std::size_t>(format)]; }

  std::array<std::unique_ptr<FormatDecoder>, 4> decoders_;  // [formats]
  ImageHeader header_;
  bool opened_ = false;  // and not yet decoded
  Image turned_;         // as stored, before it is made upright
};

/// The whole image at full size. Throws DataError as ImageDecoder does.
[[nodiscard]] Image decode_image(std::span<const std::byte> bytes);

}  // namespace mn::data
