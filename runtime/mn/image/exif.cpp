#include <mn/image/exif.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace mn::data {
namespace {

constexpr std::array<std::uint8_t, 6> kExif = {'E', 'x', 'i', 'f', 0, 0};
constexpr std::uint16_t kOrientationTag = 0x0112;
constexpr std::size_t kEntryBytes = 12;

/// Bytes of an integer of TIFF's type `type`; 0 for other types. The orientation should be a SHORT, but some programs
/// write longer integers.
std::size_t integer_bytes(std::uint32_t type) {
  constexpr std::uint32_t kShort = 3, kLong = 4, kSignedShort = 8, kSignedLong = 9;
  if (type == kShort || type == kSignedShort) return 2;
  return type == kLong || type == kSignedLong ? 4 : 0;
}

/// Reads an integer in the structure's byte order. No value if it would lie beyond the structure's end.
std::optional<std::uint32_t> number(std::span<const std::uint8_t> tiff, std::size_t at, std::size_t size) {
  if (at > tiff.size() || size > tiff.size() - at) return std::nullopt;
  const bool is_big_endian = tiff[0] == 'M';
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8 | tiff[at + (is_big_endian ? i : size - 1 - i)];
  return value;
}

}  // namespace

int read_exif_orientation(std::span<const std::uint8_t> app1) noexcept {
  if (app1.size() < kExif.size() || !std::equal(kExif.begin(), kExif.end(), app1.begin())) return 1;
  return read_tiff_orientation(app1.subspan(kExif.size()));
}

int read_tiff_orientation(std::span<const std::uint8_t> tiff) noexcept {
  if (number(tiff, 2, 2) != 42u) return 1;
  const auto directory = number(tiff, 4, 4);
  const auto entries = directory ? number(tiff, *directory, 2) : std::nullopt;
  if (!entries) return 1;
  for (std::size_t i = 0; i < *entries; ++i) {
    const std::size_t entry = std::size_t{*directory} + 2 + i * kEntryBytes;
    const std::size_t value_bytes = integer_bytes(number(tiff, entry + 2, 2).value_or(0));
    if (number(tiff, entry, 2) != kOrientationTag || value_bytes == 0) continue;
    const std::uint32_t value = number(tiff, entry + 8, value_bytes).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace mn::data
