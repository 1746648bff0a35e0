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
