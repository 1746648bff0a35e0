/// Images in memory, and rectangles in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mn::data {

/// Whole pixels [x, x + width) × [y, y + height).
struct Region {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  bool operator==(const Region&) const = default;
};

/// The same with fractions; the centre of pixel (0, 0) lies at (0.5, 0.5).
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

[[nodiscard]] inline Box to_box(const Region& region) {
  return {double(region.x), double(region.y), double(region.width), double(region.height)};
}

enum class ImageFormat : std::uint8_t { kJpeg, kPng };

/// What an encoded image says of itself before it is decoded.
struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;
  int width = 0;
  int height = 0;
  int components = 0;   ///< as stored: 1 gray, 2 gray and alpha, 3 color or a palette, 4 CMYK, YCCK or color and alpha
  int orientation = 1;  ///< EXIF's value, 1 … 8
};

/// RGB, 8 bits each. Reuse one object from image to image: it keeps its memory.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;  ///< (height, width, 3)

  void resize(int new_width, int new_height) {
    width = new_width;
    height = new_height;
    pixels.resize(std::size_t{3} * width * height);
  }
  [[nodiscard]] std::uint8_t* row(int y) { return pixels.data() + std::size_t{3} * width * y; }
  [[nodiscard]] const std::uint8_t* row(int y) const { return pixels.data() + std::size_t{3} * width * y; }
};

}  // namespace mn::data
