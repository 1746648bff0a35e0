#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include <mn/image/exif.hpp>

namespace mn::data {
namespace {

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
