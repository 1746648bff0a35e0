// Damaged and hostile JPEGs are errors, whatever they hold.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/image/image_decoder.hpp>

#include "tests/image/compare_images.hpp"
#include "tests/image/jpeg_samples.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(std::span<const std::byte> bytes) {
  return test::message_of<DataError>([&] { (void)decode_image(bytes); });
}

TEST(Jpeg, TruncationIsDamageWhereItIsRead) {
  for (const bool progressive : {false, true}) {
    const auto jpeg = encode_jpeg(draw_image(160, 120), {.progressive = progressive});
    for (const std::size_t size : {std::size_t{3}, std::size_t{20}, jpeg.size() / 2, jpeg.size() - 40}) {
      EXPECT_THAT(error_of(std::span(jpeg).first(size)), StartsWith("damaged JPEG: ")) << size;
    }
  }
}

TEST(Jpeg, LackOfTheLastScansIsDamage) {
  const auto jpeg = encode_jpeg(draw_image(64, 48), {.progressive = true});
  const std::byte marker[] = {std::byte{0xFF}, std::byte{0xDA}};
  const auto last = std::find_end(jpeg.begin(), jpeg.end(), std::begin(marker), std::end(marker));
  EXPECT_THAT(error_of(std::span(jpeg.begin(), last)), StartsWith("damaged JPEG: "));
}

TEST(Jpeg, EveryFlippedByteIsAnErrorOrAnImage) {
  std::mt19937 generator(3);
  ImageDecoder decoder;
  Image part;
  for (const bool progressive : {false, true}) {
    const auto jpeg = encode_jpeg(draw_image(64, 48), {.progressive = progressive, .orientation = 6});
    for (std::size_t i = 0; i < jpeg.size(); ++i) {
      auto damaged = jpeg;
      damaged[i] ^= static_cast<std::byte>(1 + generator() % 255);
      try {
        const ImageHeader header = decoder.open(damaged);
        if (std::int64_t{header.width} * header.height > 1 << 22) continue;  // allowed, but slow
        const Region region = random_region(generator, header.width, header.height);
        (void)decoder.decode(region, 16, 16, part);
      } catch (const DataError&) {
      }
    }
  }
  const auto whole = encode_jpeg(draw_image(64, 48));
  EXPECT_EQ(decoder.open(whole).width, 64);  // it still works
}

TEST(Jpeg, TooManyPixelsAreRejected) {
  auto jpeg = encode_jpeg(draw_image(16, 16));
  const std::byte marker[] = {std::byte{0xFF}, std::byte{0xC0}};
  const auto frame = std::search(jpeg.begin(), jpeg.end(), std::begin(marker), std::end(marker));
  ASSERT_NE(frame, jpeg.end());
  std::fill_n(frame + 5, 4, std::byte{0xF0});  // height and width 61,680
  EXPECT_THAT(error_of(jpeg), HasSubstr("61680 × 61680 pixels"));
}

TEST(Jpeg, EndlessScansAreRejected) {
  const auto jpeg = encode_jpeg(draw_image(64, 48), {.progressive = true});
  const std::byte marker[] = {std::byte{0xFF}, std::byte{0xDA}};
  const auto first = std::search(jpeg.begin(), jpeg.end(), std::begin(marker), std::end(marker));
  const auto second = std::search(first + 2, jpeg.end(), std::begin(marker), std::end(marker));
  std::vector<std::byte> endless(jpeg.begin(), second);
  for (int i = 0; i < 300; ++i) endless.insert(endless.end(), first, second);
  EXPECT_THAT(error_of(endless), HasSubstr("scans"));
}

TEST(Jpeg, RegionOutsideIsAnError) {
  const auto jpeg = encode_jpeg(draw_image(16, 16));
  ImageDecoder decoder;
  Image part;
  for (const Region region : {Region{0, 0, 17, 1}, {-1, 0, 2, 2}, {0, 16, 1, 1}, {0, 0, 0, 1}}) {
    (void)decoder.open(jpeg);
    EXPECT_THROW((void)decoder.decode(region, 1, 1, part), ArgumentError);
  }
}

}  // namespace
}  // namespace mn::data
