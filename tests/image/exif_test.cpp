#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <mn/image/exif.hpp>

namespace mn::data {
namespace {

TEST(Exif, AnyWholeNumberTellsTheOrientation) {
  for (const auto& [type, bytes] : {std::pair(3, 2), {8, 2}, {4, 4}, {9, 4}, {1, 0}, {5, 0}}) {
    for (const bool is_big_endian : {false, true}) {
      std::vector<std::uint8_t> tiff(26, 0);
      const auto put = [&](std::size_t at, std::size_t size, int value) {
        for (std::size_t i = 0; i < size; ++i) {
          tiff[at + (is_big_endian ? size - 1 - i : i)] = static_cast<std::uint8_t>(value >> (8 * i));
        }
      };
      tiff[0] = tiff[1] = is_big_endian ? 'M' : 'I';
      put(2, 2, 42);
      put(4, 4, 8);
      put(8, 2, 1);
      put(10, 2, 0x0112);
      put(12, 2, type);
      put(14, 4, 1);
      put(18, bytes == 0 ? 2 : static_cast<std::size_t>(bytes), 6);
      EXPECT_EQ(read_tiff_orientation(tiff), bytes == 0 ? 1 : 6) << "type " << type << " " << is_big_endian;
    }
  }
}

TEST(Exif, MalformedOnesMeanUpright) {
  const std::uint8_t exif[] = {'E', 'x', 'i', 'f', 0,    0, 'M', 'M', 0, 42, 0, 0, 0,
                               8,   0,   1,   1,   0x12, 0, 3,   0,   0, 0,  1, 0, 6};
  EXPECT_EQ(read_exif_orientation(exif), 6);
  for (std::size_t size = 0; size < sizeof exif; ++size) {
    EXPECT_EQ(read_exif_orientation(std::span(exif).first(size)), 1) << size;
  }
  auto far = std::to_array(exif);
  far[10] = 0xFF;  // the directory lies beyond the end
  EXPECT_EQ(read_exif_orientation(far), 1);
  auto wrong = std::to_array(exif);
  wrong[25] = 9;
  EXPECT_EQ(read_exif_orientation(wrong), 1);
}

}  // namespace
}  // namespace mn::data
