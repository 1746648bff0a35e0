#include <algorithm>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <mn/core/error.hpp>
#include <mn/image/format_decoder.hpp>
#include <mn/image/image_decoder.hpp>

#include "tests/image/png_samples.hpp"
#include "tests/support/resident_bytes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(std::span<const std::byte> bytes) {
  return test::message_of<DataError>([&] { (void)decode_image(bytes); });
}

struct Kind {
  PngColor color;
  int depth;
};

class EveryPng : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryPng, DecodesToItsSamples) {
  const auto [color, depth] = GetParam();
  const bool has_alpha = color == PngColor::kGrayAlpha || color == PngColor::kRgbAlpha;
  for (const bool interlaced : {false, true}) {
    for (const bool transparency : {false, true}) {
      if (transparency && has_alpha) continue;
      for (const auto& [width, height] : {std::pair(37, 23), {1, 1}, {2, 9}, {8, 8}, {300, 3}}) {
        const auto png = make_png({.color = color,
                                   .depth = depth,
                                   .interlaced = interlaced,
                                   .transparency = transparency,
                                   .gamma = transparency,
                                   .text = interlaced,
                                   .width = width,
                                   .height = height});
        const Image image = decode_image(png.bytes);
        ASSERT_EQ(image.width, width);
        ASSERT_EQ(image.height, height);
        EXPECT_EQ(image.pixels, png.pixels.pixels) << width << "x" << height << " " << interlaced << transparency;
      }
    }
  }
}

constexpr const char* name_of(PngColor color) {
  constexpr const char* kNames[] = {"gray", "", "rgb", "palette", "gray_alpha", "", "rgb_alpha"};
  return kNames[static_cast<int>(color)];
}

INSTANTIATE_TEST_SUITE_P(Png, EveryPng,
                         ::testing::Values(Kind{PngColor::kGray, 1}, Kind{PngColor::kGray, 2}, Kind{PngColor::kGray, 4},
                                           Kind{PngColor::kGray, 8}, Kind{PngColor::kGray, 16}, Kind{PngColor::kRgb, 8},
                                           Kind{PngColor::kRgb, 16}, Kind{PngColor::kPalette, 1},
                                           Kind{PngColor::kPalette, 2}, Kind{PngColor::kPalette, 4},
                                           Kind{PngColor::kPalette, 8}, Kind{PngColor::kGrayAlpha, 8},
                                           Kind{PngColor::kGrayAlpha, 16}, Kind{PngColor::kRgbAlpha, 8},
                                           Kind{PngColor::kRgbAlpha, 16}),
                         [](const auto& test) { return name_of(test.param.color) + std::to_string(test.param.depth); });

TEST(Png, HeaderSaysWhatIsStored) {
  const auto decoder = make_png_decoder();
  for (const auto& [color, components] : {std::pair(PngColor::kGray, 1),
                                          {PngColor::kGrayAlpha, 2},
                                          {PngColor::kRgb, 3},
                                          {PngColor::kPalette, 3},
                                          {PngColor::kRgbAlpha, 4}}) {
    const auto png = make_png({.color = color});
    const ImageHeader header = decoder->open(png.bytes);
    EXPECT_EQ(header.format, ImageFormat::kPng);
    EXPECT_EQ(header.width, 37);
    EXPECT_EQ(header.height, 23);
    EXPECT_EQ(header.components, components);
    EXPECT_EQ(header.orientation, 1);
  }
}

TEST(Png, TruncationIsDamageEverywhere) {
  testing::internal::CaptureStderr();
  for (const bool interlaced : {false, true}) {
    const auto png = make_png({.interlaced = interlaced, .text = true, .orientation = 6});
    for (std::size_t size = 7; size < png.bytes.size(); size += 7) {
      EXPECT_THAT(error_of(std::span(png.bytes).first(size)), StartsWith("damaged PNG: ")) << size;
    }
    EXPECT_THAT(error_of(std::span(png.bytes).first(png.bytes.size() - 1)), HasSubstr("it ends too early"));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Png, EveryWrongChecksumIsDamage) {
  const auto png = make_png({.color = PngColor::kPalette, .transparency = true, .gamma = true, .text = true});
  const auto chunks = chunks_of(png.bytes);
  ASSERT_EQ(chunks.size(), 9U);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    auto damaged = png.bytes;
    damaged[(i + 1 < chunks.size() ? chunks[i + 1] : damaged.size()) - 1] ^= std::byte{1};
    EXPECT_THAT(error_of(damaged), AllOf(StartsWith("damaged PNG: "), HasSubstr("CRC"))) << i;
  }
}

TEST(Png, EveryFlippedByteIsDamage) {
  std::mt19937 generator(4);
  ImageDecoder decoder;
  Image image;
  testing::internal::CaptureStderr();
  for (const bool interlaced : {false, true}) {
    const auto png = make_png({.color = PngColor::kPalette, .interlaced = interlaced, .text = true, .orientation = 6});
    for (std::size_t i = 0; i < png.bytes.size(); ++i) {
      auto damaged = png.bytes;
      damaged[i] ^= static_cast<std::byte>(1 + generator() % 255);
      EXPECT_THROW(
          {
            const ImageHeader header = decoder.open(damaged);
            (void)decoder.decode({0, 0, header.width, header.height}, 1, 1, image);
          },
          DataError)
          << i;
    }
    const ImageHeader header = decoder.open(png.bytes);  // it still works
    EXPECT_EQ(header.width, 23);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

/// Random chunks with right checksums, as an attacker would send.
TEST(Png, EveryFlippedByteUnderARightChecksumIsDamageOrAnImage) {
  std::mt19937 generator(5);
  int images = 0;
  for (const PngColor color : {PngColor::kPalette, PngColor::kRgbAlpha}) {
    const auto png = make_png({.color = color, .interlaced = true, .text = true, .orientation = 6});
    const auto chunks = chunks_of(png.bytes);
    for (const std::size_t chunk : chunks) {
      const std::size_t end = std::min(*std::upper_bound(chunks.begin(), chunks.end(), chunk), png.bytes.size());
      for (std::size_t i = chunk + 8; i + 4 < end; ++i) {
        auto damaged = png.bytes;
        damaged[i] ^= static_cast<std::byte>(1 + generator() % 255);
        seal_chunk(damaged, chunk);
        try {
          ImageDecoder decoder;
          const ImageHeader header = decoder.open(damaged);
          if (std::int64_t{header.width} * header.height > 1 << 22) continue;  // allowed, but slow
          Image image;
          (void)decoder.decode({0, 0, 1, 1}, 1, 1, image);
          ++images;
        } catch (const DataError&) {
        }
      }
    }
  }
  EXPECT_GT(images, 100);
}

std::string error_of_size(std::uint32_t width, std::uint32_t height) {
  auto bytes = make_png().bytes;
  for (int i = 0; i < 4; ++i) {
    bytes[16 + i] = static_cast<std::byte>(width >> (24 - 8 * i));
    bytes[20 + i] = static_cast<std::byte>(height >> (24 - 8 * i));
  }
  seal_chunk(bytes, 8);
  ImageDecoder decoder;
  return test::message_of<DataError>([&] { (void)decoder.open(bytes); });
}

TEST(Png, HugeImagesAreRejectedBeforeTheirPixels) {
  EXPECT_EQ(error_of_size(65535, 65535), "PNG of 65535 × 65535 pixels; at most 134217728 are decoded");
  EXPECT_EQ(error_of_size(65536, 1), "PNG of 65536 × 1 pixels; at most 65535 a side are decoded");
  EXPECT_EQ(error_of_size(1, 0x7FFFFFFF), "PNG of 1 × 2147483647 pixels; at most 65535 a side are decoded");
  EXPECT_THAT(error_of_size(0xFFFFFFFF, 0xFFFFFFFF), StartsWith("damaged PNG: "));
  EXPECT_THAT(error_of_size(0, 1), StartsWith("damaged PNG: "));
}

/// Puts a chunk of that name before the pixels.
void add_chunk(std::vector<std::byte>& png, std::string_view name, std::string_view payload) {
  std::vector<std::byte> chunk(12 + payload.size());
  for (int i = 0; i < 4; ++i) chunk[i] = static_cast<std::byte>(payload.size() >> (24 - 8 * i));
  std::ranges::transform(std::string(name).append(payload), chunk.begin() + 4, [](char c) { return std::byte(c); });
  const std::size_t at = chunks_of(png)[1];
  png.insert(png.begin() + static_cast<std::ptrdiff_t>(at), chunk.begin(), chunk.end());
  seal_chunk(png, at);
}

TEST(Png, TextsAreNeverInflated) {
  const std::string text(7 << 20, 'x');
  std::string deflated(compressBound(text.size()), '\0');
  uLongf size = deflated.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(deflated.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
                     text.size()),
            Z_OK);
  deflated.resize(size);
  const auto png = make_png();
  auto bomb = png.bytes;
  for (int i = 0; i < 20; ++i) add_chunk(bomb, "zTXt", std::string("key\0\0", 5) + deflated);

  const auto decoder = make_png_decoder();
  const std::int64_t before = test::resident_bytes();
  (void)decoder->open(bomb);
  EXPECT_LT(test::resident_bytes() - before, 10 << 20);
  EXPECT_EQ(decode_image(bomb).pixels, png.pixels.pixels);
}

TEST(Png, OrientationIsHonoredWhereverItStands) {
  ImageDecoder decoder;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool late : {false, true}) {
      const auto png = make_png({.orientation = orientation, .late_exif = late});
      const ImageHeader header = decoder.open(png.bytes);
      EXPECT_EQ(header.orientation, orientation);
      EXPECT_EQ(header.width, orientation >= 5 ? 23 : 37);
      const Image image = decode_image(png.bytes);
      // The stored first pixel is seen in the corner that the EXIF standard names.
      const bool right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
      const bool bottom = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
      const auto* corner = image.row(bottom ? image.height - 1 : 0) + 3 * (right ? image.width - 1 : 0);
      EXPECT_TRUE(std::equal(corner, corner + 3, png.pixels.pixels.begin())) << orientation;
    }
  }
}

TEST(Png, ARegionLiesInTheWhole) {
  const auto png = make_png();
  ImageDecoder decoder;
  Image image;
  (void)decoder.open(png.bytes);
  const Box box = decoder.decode({5, 7, 20, 10}, 1, 1, image);
  EXPECT_EQ(box.x, 5);
  EXPECT_EQ(box.y, 7);
  EXPECT_EQ(box.width, 20);
  EXPECT_EQ(box.height, 10);
  EXPECT_EQ(image.pixels, png.pixels.pixels);
}

}  // namespace
}  // namespace mn::data
