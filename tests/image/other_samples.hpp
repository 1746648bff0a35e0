/// WebPs and TIFFs of every kind, made of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <mn/image/image.hpp>

namespace mn::data {

struct WebpOptions {
  bool lossless = true;
  bool alpha = false;      ///< ever more transparent to the right
  int orientation = 0;     ///< EXIF's; 0: no chunk EXIF
  bool marked = false;     ///< the EXIF chunk begins like JPEG's
  bool animation = false;  ///< sets the flag of an animation
};

[[nodiscard]] std::vector<std::byte> encode_webp(const Image& image, const WebpOptions& options = {});

enum class TiffColor { kRgb, kGray, kPalette, kRgbAlpha, kCmyk };

struct TiffOptions {
  TiffColor color = TiffColor::kRgb;
  int depth = 8;        ///< 8 or 16; gray: also 1
  int extra = 0;        ///< further samples, undescribed
  int compression = 1;  ///< TIFF's number
  int tile = 0;         ///< side of tiles, a multiple of 16; 0: strips
  bool planar = false;
  bool big = false;         ///< BigTIFF
  bool big_endian = false;  ///< numbers in the file
  int orientation = 0;      ///< 0: no tag
  int sample_format = 0;    ///< TIFF's number; 0: no tag
};

[[nodiscard]] std::vector<std::byte> encode_tiff(const Image& image, const TiffOptions& options = {});

/// One of each kind, by name; names end in .webp or .tif.
struct OtherSample {
  std::string_view name;
  std::vector<std::byte> bytes;
};
[[nodiscard]] std::vector<OtherSample> other_samples(const Image& image);

}  // namespace mn::data
