/// Images in memory, and rectangles in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mn::data {

/// A rectangle of whole pixels: [x, x + width) × [y, y + height).
struct Region {
  int x = 0;       ///< first column
  int y = 0;       ///< first row
  int width = 0;   ///< columns
  int height = 0;  ///< rows
  /// True if all members are equal.
  bool operator==(const Region&) const = default;
};

/// Whether the region holds the pixel in column x of row y.
[[nodiscard]] inline bool contains(const Region& region, int x, int y) {
  return x >= region.x && x < region.x + region.width && y >= region.y && y < region.y + region.height;
}

/// A rectangle whose edges may cut pixels. The center of pixel (0, 0) lies at (0.5, 0.5).
struct Box {
  double x = 0;       ///< left edge
  double y = 0;       ///< upper edge
  double width = 0;   ///< in pixels
  double height = 0;  ///< in pixels
};

/// The region as a box.
[[nodiscard]] inline Box to_box(const Region& region) {
  return {double(region.x), double(region.y), double(region.width), double(region.height)};
}

/// Image formats that mn decodes.
enum class ImageFormat : std::uint8_t {
  kJpeg,  ///< by libjpeg-turbo
  kPng,   ///< by libpng
  kWebp,  ///< by libwebp, in builds with libwebp
  kTiff,  ///< by libtiff, in builds with libtiff
  kBmp,   ///< Windows bitmaps, uncompressed
  kPnm,   ///< binary PPM (P6) and PGM (P5)
};

/// The header of an encoded image.
struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;  ///< recognized by the first bytes
  int width = 0;                            ///< pixels
  int height = 0;                           ///< pixels
  int components = 0;   ///< as stored: 1 gray, 2 gray and alpha, 3 color or a palette, 4 CMYK, YCCK or color and alpha
  int orientation = 1;  ///< EXIF's value, 1 … 8
  int bits = 8;         ///< bits of a stored value, at least 8; of 16 bits, decoding keeps the high 8
};

/// An RGB image with 8 bits per value. Reuse one object for many images, because resize() reuses its memory.
struct Image {
  int width = 0;                     ///< pixels
  int height = 0;                    ///< pixels
  std::vector<std::uint8_t> pixels;  ///< (height, width, 3)

  /// Sets the size. The values of the pixels are undefined after that.
  void resize(int new_width, int new_height) {
    width = new_width;
    height = new_height;
    pixels.resize(std::size_t{3} * width * height);
  }
  /// The first value of row y.
  [[nodiscard]] std::uint8_t* row(int y) { return pixels.data() + std::size_t{3} * width * y; }
  /// The first value of row y of a const image.
  [[nodiscard]] const std::uint8_t* row(int y) const { return pixels.data() + std::size_t{3} * width * y; }
};

}  // namespace mn::data
