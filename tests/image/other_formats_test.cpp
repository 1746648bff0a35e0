// WebP and TIFF, in builds with both.
#include <array>
#include <functional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/image/image_decoder.hpp>

#include "tests/image/compare_images.hpp"
#include "tests/image/jpeg_samples.hpp"
#include "tests/image/other_samples.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kWidth = 37, kHeight = 23;

Image sample_image() { return draw_image(kWidth, kHeight); }

ImageHeader header_of(const std::vector<std::byte>& bytes) { return ImageDecoder().open(bytes); }

std::string error_of(const std::vector<std::byte>& bytes) {
  return test::message_of<DataError>([&] { (void)decode_image(bytes); });
}

/// Every pixel of the image through `change`.
Image changed(Image image, const std::function<void(std::uint8_t* rgb)>& change) {
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) change(&image.pixels[i]);
  return image;
}

std::uint8_t gray_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
}

TEST(Webp, LosslessPixelsAreKeptAndLossyOnesNearly) {
  const Image image = sample_image();
  EXPECT_EQ(decode_image(encode_webp(image)).pixels, image.pixels);
  EXPECT_LT(mean_difference(decode_image(encode_webp(image, {.lossless = false})), image), 6);
  const ImageHeader header = header_of(encode_webp(image));
  EXPECT_EQ(header.format, ImageFormat::kWebp);
  EXPECT_EQ(header.width, kWidth);
  EXPECT_EQ(header.components, 3);
}

TEST(Webp, TransparencyIsDropped) {
  const Image image = sample_image();
  EXPECT_EQ(decode_image(encode_webp(image, {.alpha = true})).pixels, image.pixels);
  EXPECT_EQ(header_of(encode_webp(image, {.alpha = true})).components, 4);
}

TEST(Webp, OrientationComesFromTheChunkExif) {
  const Image image = sample_image();
  for (const bool marked : {false, true}) {
    const auto bytes = encode_webp(image, {.orientation = 6, .marked = marked});
    EXPECT_EQ(header_of(bytes).orientation, 6);
    const Image turned = decode_image(bytes);
    ASSERT_EQ(turned.width, kHeight);
    EXPECT_TRUE(std::equal(turned.row(0), turned.row(0) + 3, image.row(kHeight - 1)));
  }
}

TEST(Webp, DamageAndAnimationsAreErrors) {
  const auto bytes = encode_webp(sample_image(), {.orientation = 3});
  for (std::size_t size = 12; size < bytes.size(); size += 7) {
    const std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    try {
      EXPECT_EQ(decode_image(part).width, kWidth) << size;  // only bytes after the pixels are missing
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), StartsWith("damaged WebP: ")) << size;
    }
  }
  EXPECT_THAT(error_of(encode_webp(sample_image(), {.animation = true})), StartsWith("an animated WebP"));
}

TEST(Tiff, KindsWithoutLossAreKept) {
  const Image image = sample_image();
  for (const TiffOptions& options : {TiffOptions{},
                                     {.compression = 5},
                                     {.compression = 8},
                                     {.compression = 32773},
                                     {.tile = 16},
                                     {.compression = 5, .tile = 16},
                                     {.planar = true},
                                     {.big = true},
                                     {.big_endian = true},
                                     {.compression = 8, .big = true, .big_endian = true},
                                     {.depth = 16},
                                     {.depth = 16, .big_endian = true},
                                     {.color = TiffColor::kRgbAlpha},
                                     {.color = TiffColor::kCmyk}}) {
    const auto bytes = encode_tiff(image, options);
    EXPECT_EQ(header_of(bytes).format, ImageFormat::kTiff);
    const Image decoded = decode_image(bytes);
    EXPECT_EQ(difference(image, {0, 0, kWidth, kHeight}, decoded, {0, 0, kWidth, kHeight}), 0)
        << "color " << static_cast<int>(options.color) << " depth " << options.depth << " compression "
        << options.compression << " tile " << options.tile;
  }
}

TEST(Tiff, GrayAndPalettesBecomeRgb) {
  const Image image = sample_image();
  const Image gray = changed(image, [](std::uint8_t* rgb) { rgb[0] = rgb[1] = rgb[2] = gray_of(rgb); });
  EXPECT_EQ(decode_image(encode_tiff(image, {.color = TiffColor::kGray})).pixels, gray.pixels);
  const Image binary = changed(gray, [](std::uint8_t* rgb) { rgb[0] = rgb[1] = rgb[2] = rgb[0] >= 128 ? 255 : 0; });
  for (const int compression : {1, 4}) {
    const auto bytes = encode_tiff(image, {.color = TiffColor::kGray, .depth = 1, .compression = compression});
    EXPECT_EQ(decode_image(bytes).pixels, binary.pixels) << compression;
  }
  const Image palette = changed(gray, [](std::uint8_t* rgb) {
    const std::uint8_t index = rgb[0];
    rgb[0] = static_cast<std::uint8_t>(255 - index);
    rgb[1] = static_cast<std::uint8_t>(index * 7);
    rgb[2] = index;
  });
  const auto bytes = encode_tiff(image, {.color = TiffColor::kPalette});
  EXPECT_EQ(decode_image(bytes).pixels, palette.pixels);
  EXPECT_EQ(header_of(bytes).components, 3);
}

TEST(Tiff, TilesAndStripsOfAnyDepthHaveTheSamePixels) {
  // libtiff's own routines skip too little at the right edge of gray tiles.
  const Image image = sample_image();
  const Image gray = changed(image, [](std::uint8_t* rgb) { rgb[0] = rgb[1] = rgb[2] = gray_of(rgb); });
  const Image binary = changed(gray, [](std::uint8_t* rgb) { rgb[0] = rgb[1] = rgb[2] = rgb[0] >= 128 ? 255 : 0; });
  for (int number = 0; number < 2 * 3 * 3 * 4 * 2 * 8; ++number) {
    int rest = number;
    const auto choose = [&](int count) { return std::exchange(rest, rest / count) % count; };
    const TiffOptions options{.color = choose(2) == 0 ? TiffColor::kGray : TiffColor::kRgb,
                              .depth = std::array{1, 8, 16}[choose(3)],
                              .extra = choose(3),
                              .tile = 16 * choose(4),
                              .planar = choose(2) == 1,
                              .orientation = choose(8) + 1};
    if (options.depth == 1 && (options.color != TiffColor::kGray || options.extra > 0)) continue;
    const Image& expected = options.color == TiffColor::kRgb ? image : options.depth == 1 ? binary : gray;
    auto upright = options;
    upright.orientation = 1;
    EXPECT_EQ(decode_image(encode_tiff(image, upright)).pixels, expected.pixels) << number;
    auto strips = options;
    strips.tile = 0;
    strips.planar = false;
    strips.extra = 0;
    EXPECT_EQ(decode_image(encode_tiff(image, options)).pixels, decode_image(encode_tiff(image, strips)).pixels)
        << number;
  }
}

TEST(Tiff, SamplesWithASignAreAnError) {
  for (const int format : {2, 3}) {
    EXPECT_THAT(
        error_of(encode_tiff(sample_image(), {.color = TiffColor::kGray, .depth = 16, .sample_format = format})),
        HasSubstr("signed or not whole numbers: write them as uint8 or uint16"));
  }
}

TEST(Tiff, OrientationIsThatOfTheTag) {
  const Image image = sample_image();
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto bytes = encode_tiff(image, {.orientation = orientation});
    EXPECT_EQ(header_of(bytes).orientation, orientation);
    const Image turned = decode_image(bytes);
    EXPECT_EQ(turned.width, orientation >= 5 ? kHeight : kWidth);
    const Image as_png_turns = [&] {  // the first pixel, wherever it goes
      Image corner;
      corner.resize(1, 1);
      const int x = orientation == 2 || orientation == 3   ? kWidth - 1
                    : orientation == 6 || orientation == 7 ? kHeight - 1
                                                           : 0;
      const int y = orientation == 3 || orientation == 4   ? kHeight - 1
                    : orientation == 7 || orientation == 8 ? kWidth - 1
                                                           : 0;
      std::copy_n(turned.row(y) + 3 * x, 3, corner.pixels.data());
      return corner;
    }();
    EXPECT_TRUE(std::equal(as_png_turns.pixels.begin(), as_png_turns.pixels.end(), image.row(0))) << orientation;
  }
}

TEST(Tiff, DamageIsAnErrorOrChangesNothing) {
  const Image image = sample_image();
  for (const TiffOptions& options : {TiffOptions{}, {.compression = 5}, {.compression = 8, .tile = 16}}) {
    const auto bytes = encode_tiff(image, options);
    for (std::size_t size = 4; size < bytes.size(); size += 11) {
      const std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_THAT(error_of(part), StartsWith("damaged TIFF, or of a kind that is not decoded: ")) << size;
    }
  }
  EXPECT_THAT(error_of(encode_tiff(image, {.compression = 34925})), HasSubstr("compressed in the way 34925"));  // LZMA
}

TEST(OtherFormats, OneDecoderTakesThemInTurn) {
  ImageDecoder decoder;
  const auto samples = other_samples(sample_image());
  for (int round = 0; round < 2; ++round) {
    for (const auto& [name, bytes] : samples) {
      const ImageHeader header = decoder.open(bytes);
      Image image;
      (void)decoder.decode({0, 0, header.width, header.height}, 1, 1, image);
      EXPECT_EQ(image.pixels, decode_image(bytes).pixels) << name;
      EXPECT_ANY_THROW((void)decoder.open(std::span(bytes).first(6)));
    }
  }
}

}  // namespace
}  // namespace mn::data
