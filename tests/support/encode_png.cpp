#include "tests/support/encode_png.hpp"

#include <array>
#include <cstdint>

#include <png.h>

namespace mn::test {
namespace {

constexpr int kSteps = 6;  // of each color in the palette: 6³ = 216 entries
constexpr int kStep = 255 / (kSteps - 1);

struct Format {
  int color_type;
  int bit_depth;
};

Format format_of(PngKind kind) {
  switch (kind) {
    case PngKind::kRgb:
      return {PNG_COLOR_TYPE_RGB, 8};
    case PngKind::kRgba:
      return {PNG_COLOR_TYPE_RGBA, 8};
    case PngKind::kPalette:
      return {PNG_COLOR_TYPE_PALETTE, 8};
    case PngKind::kGray:
      return {PNG_COLOR_TYPE_GRAY, 8};
    case PngKind::kRgb16:
      return {PNG_COLOR_TYPE_RGB, 16};
  }
  return {};
}

std::uint8_t nearest_step(std::uint8_t value) { return static_cast<std::uint8_t>((value + kStep / 2) / kStep); }

/// Bytes of one row as the format stores them.
void store_row(const data::Image& image, int y, PngKind kind, std::vector<png_byte>& out) {
  out.clear();
  for (int x = 0; x < image.width; ++x) {
    const std::uint8_t* rgb = image.row(y) + 3 * x;
    if (kind == PngKind::kPalette) {
      const int index = (nearest_step(rgb[0]) * kSteps + nearest_step(rgb[1])) * kSteps + nearest_step(rgb[2]);
      out.push_back(static_cast<png_byte>(index));
    } else if (kind == PngKind::kGray) {
      out.push_back(static_cast<png_byte>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000));
    } else {
      for (int c = 0; c < 3; ++c) out.insert(out.end(), kind == PngKind::kRgb16 ? 2 : 1, rgb[c]);
      if (kind == PngKind::kRgba) out.push_back(static_cast<png_byte>(255 - 255 * x / image.width));
    }
  }
}

std::array<png_color, kSteps * kSteps * kSteps> palette() {
  std::array<png_color, kSteps * kSteps * kSteps> colors;
  for (int i = 0; i < kSteps * kSteps * kSteps; ++i) {
    colors[i] = {static_cast<png_byte>(i / kSteps / kSteps * kStep), static_cast<png_byte>(i / kSteps % kSteps * kStep),
                 static_cast<png_byte>(i % kSteps * kStep)};
  }
  return colors;
}

void append(png_structp png, png_bytep data, png_size_t size) {
  auto& bytes = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(png));
  const auto* first = reinterpret_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), first, first + size);
}

}  // namespace

std::vector<std::byte> encode_png(const data::Image& image, PngKind kind) {
  std::vector<std::byte> bytes;
  // An error of libpng, of which a valid image has none, ends the process: no jump is set.
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &bytes, append, [](png_structp) {});
  const auto [color_type, bit_depth] = format_of(kind);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), bit_depth,
               color_type, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (kind == PngKind::kPalette) {
    const auto colors = palette();
    png_set_PLTE(png, info, colors.data(), static_cast<int>(colors.size()));
  }
  png_write_info(png, info);
  std::vector<png_byte> row;
  for (int y = 0; y < image.height; ++y) {
    store_row(image, y, kind, row);
    png_write_row(png, row.data());
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

}  // namespace mn::test
