/// Images made by rule, and JPEGs of every kind made of them.
#pragma once

#include <cstddef>
#include <vector>

#include <mn/image/image.hpp>

namespace mn::data {

enum class Color { kYcc, kGray, kRgb, kCmyk, kYcck };

struct JpegOptions {
  int quality = 90;
  int horizontal = 2;  ///< luma samples for each chroma sample
  int vertical = 2;
  bool progressive = false;
  Color color = Color::kYcc;
  int orientation = 0;  ///< EXIF's; 0: no EXIF
  bool big_endian = false;
  int restart_rows = 0;
  bool adobe_marker = true;  ///< for CMYK; YCCK needs it
};

/// Smooth colors with some detail: every pixel differs from its neighbors.
[[nodiscard]] Image draw_image(int width, int height);

[[nodiscard]] std::vector<std::byte> encode_jpeg(const Image& image, const JpegOptions& options = {});

}  // namespace mn::data
