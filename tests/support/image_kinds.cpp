#include "tests/support/image_kinds.hpp"

#include <algorithm>
#include <string>

#include <mn/core/error.hpp>

#include "tests/image/jpeg_samples.hpp"
#include "tests/image/png_samples.hpp"

namespace mn::test {
namespace {

using Bytes = std::vector<std::byte>;
using data::Image;
using data::PngColor;

/// What a camera stores that is held so: EXIF names the sides of the upright image at which row 0 and column 0 lie.
Image as_stored(const Image& upright, int orientation) {
  const bool transposed = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  Image stored;
  stored.resize(transposed ? upright.height : upright.width, transposed ? upright.width : upright.height);
  for (int y = 0; y < stored.height; ++y) {
    for (int x = 0; x < stored.width; ++x) {
      const int column = transposed ? y : x;
      const int row = transposed ? x : y;
      const std::uint8_t* from = upright.row(from_bottom ? upright.height - 1 - row : row);
      std::copy_n(from + 3 * (from_right ? upright.width - 1 - column : column), 3, stored.row(y) + 3 * x);
    }
  }
  return stored;
}

template <PngColor color = PngColor::kRgb, int depth = 8>
Bytes png(const Image& image, std::int64_t /*index*/) {
  return data::encode_png(image, {.color = color, .depth = depth});
}

constexpr ImageKind kKinds[] = {
    {"baseline", ".JPEG", [](const Image& image, std::int64_t) { return data::encode_jpeg(image); }},
    {"progressive", ".JPEG",
     [](const Image& image, std::int64_t) { return data::encode_jpeg(image, {.progressive = true}); }},
    {"gray", ".JPEG",
     [](const Image& image, std::int64_t) { return data::encode_jpeg(image, {.color = data::Color::kGray}); }},
    {"cmyk", ".JPEG",
     [](const Image& image, std::int64_t) { return data::encode_jpeg(image, {.color = data::Color::kCmyk}); }},
    {"ycck", ".JPEG",
     [](const Image& image, std::int64_t) { return data::encode_jpeg(image, {.color = data::Color::kYcck}); }},
    {"exif", ".JPEG",
     [](const Image& image, std::int64_t index) {
       const int orientation = orientation_of(index);
       return data::encode_jpeg(as_stored(image, orientation), {.orientation = orientation});
     }},
    {"png", ".png", png<>},
    {"png-rgba", ".png", png<PngColor::kRgbAlpha>},
    {"png-palette", ".png", png<PngColor::kPalette>},
    {"png-gray", ".png", png<PngColor::kGray>},
    {"png-16", ".png", png<PngColor::kRgb, 16>},
    {"png-as-jpeg", ".JPEG", png<>},  // as ImageNet's n02105855_2933.JPEG
};

}  // namespace

std::span<const ImageKind> image_kinds() { return kKinds; }

const ImageKind& find_image_kind(std::string_view name) {
  const auto* kind = std::ranges::find(kKinds, name, &ImageKind::name);
  if (kind != std::end(kKinds)) return *kind;
  std::string names;
  for (const ImageKind& known : kKinds) names.append(names.empty() ? "" : ", ").append(known.name);
  throw UsageError("\"" + std::string(name) + "\" is not a kind of image; use " + names);
}

}  // namespace mn::test
