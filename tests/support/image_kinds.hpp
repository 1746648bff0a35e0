/// The kinds of image files that occur in data sets, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <mn/image/image.hpp>

namespace mn::test {

struct ImageKind {
  std::string_view name;
  std::string_view extension;
  /// The image as a file of this kind. `index` chooses among variants: EXIF's eight orientations.
  std::vector<std::byte> (*encode)(const data::Image& image, std::int64_t index);
};

[[nodiscard]] std::span<const ImageKind> image_kinds();

/// Throws UsageError that lists the kinds.
[[nodiscard]] const ImageKind& find_image_kind(std::string_view name);

/// EXIF's orientation (1 … 8) that "exif" gives to the file of that index.
[[nodiscard]] constexpr int orientation_of(std::int64_t index) { return static_cast<int>(1 + index % 8); }

}  // namespace mn::test
