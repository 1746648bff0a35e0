/// Decoding of JPEGs by libjpeg-turbo: only the part that is needed, no larger than needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <mn/data/image.hpp>

namespace mn::data {

/// Larger pictures are refused: a header of a few bytes could otherwise ask for gigabytes.
inline constexpr std::int64_t kMaxJpegPixels = std::int64_t{1} << 27;

struct JpegHeader {
  int width = 0;  ///< of the upright picture, the EXIF orientation applied
  int height = 0;
  int components = 0;   ///< as stored: 1 gray, 3 colour, 4 CMYK or YCCK
  int orientation = 1;  ///< EXIF's value, 1 … 8
  bool progressive = false;
};

/// Decodes one picture after another. Keeps its memory; one thread at a time.
///
/// Errors are DataError without the name of the sample, which the caller knows: other formats under a JPEG's name,
/// damaged or truncated data, too many pixels. libjpeg's warnings of lost data count as damage. The decoder can be
/// used on after an error.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  /// Reads the header. `bytes` must live until decode() returns.
  const JpegHeader& open(std::span<const std::byte> bytes);

  /// Decodes the part of the opened picture that holds `region`, a part of the upright picture, once for each open().
  /// The picture is scaled to 1/1, 1/2, 1/4 or 1/8 in the transform domain: the smallest at which the region has
  /// at least min_width × min_height pixels (1/1 if it never has). `out` may hold more than the region; returns where
  /// the region lies in it. Gray and CMYK become RGB. At 1/1 the pixels are those of a decode of the whole picture.
  Box decode(const Region& region, int min_width, int min_height, Image& out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The whole picture at full size. Throws DataError as JpegDecoder does.
[[nodiscard]] Image decode_jpeg(std::span<const std::byte> bytes);

}  // namespace mn::data
