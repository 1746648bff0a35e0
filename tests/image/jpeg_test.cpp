// JPEGs of every kind: what was encoded comes out, also in part and reduced.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include <mn/image/image_decoder.hpp>

#include "tests/image/compare_images.hpp"
#include "tests/image/jpeg_samples.hpp"

namespace mn::data {
namespace {

struct Kind {
  const char* name;
  JpegOptions options;
};
void PrintTo(const Kind& kind, std::ostream* os) { *os << kind.name; }

class EveryKind : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryKind, PartialDecodeEqualsThatPartOfTheWhole) {
  std::mt19937 generator(1);
  ImageDecoder decoder;
  Image part;
  for (const auto& [width, height] : {std::pair(203, 151), {64, 64}, {17, 130}, {8, 8}, {1, 1}, {300, 9}}) {
    const auto jpeg = encode_jpeg(draw_image(width, height), GetParam().options);
    const Image whole = decode_image(jpeg);
    ASSERT_EQ(whole.width, width);
    ASSERT_EQ(whole.height, height);
    for (int i = 0; i < 60; ++i) {
      const Region region = random_region(generator, width, height);
      (void)decoder.open(jpeg);
      const Box box = decoder.decode(region, region.width, region.height, part);
      EXPECT_EQ(box.width, region.width);
      EXPECT_EQ(difference(whole, region, part, box), 0) << width << "x" << height << ": " << region.x << ","
                                                         << region.y << " " << region.width << "x" << region.height;
    }
  }
}

TEST_P(EveryKind, DecodesToTheImageThatWasEncoded) {
  const Image image = draw_image(120, 90);
  JpegOptions options = GetParam().options;
  options.quality = 98;
  Image expected = image;
  if (options.color == Color::kGray) {
    for (std::size_t i = 0; i < expected.pixels.size(); i += 3) {
      const auto* p = &image.pixels[i];
      std::fill_n(&expected.pixels[i], 3, static_cast<std::uint8_t>(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2] + 0.5));
    }
  }
  EXPECT_LT(mean_difference(decode_image(encode_jpeg(image, options)), expected), 3);
}

INSTANTIATE_TEST_SUITE_P(Jpeg, EveryKind,
                         ::testing::Values(Kind{"h2v2", {}}, Kind{"h1v1", {.horizontal = 1, .vertical = 1}},
                                           Kind{"h2v1", {.vertical = 1}}, Kind{"h1v2", {.horizontal = 1}},
                                           Kind{"h4v1", {.horizontal = 4, .vertical = 1}},
                                           Kind{"progressive", {.progressive = true}},
                                           Kind{"progressive_h2v1", {.vertical = 1, .progressive = true}},
                                           Kind{"gray", {.color = Color::kGray}},
                                           Kind{"gray_progressive", {.progressive = true, .color = Color::kGray}},
                                           Kind{"rgb", {.color = Color::kRgb}}, Kind{"cmyk", {.color = Color::kCmyk}},
                                           Kind{"ycck", {.color = Color::kYcck}},
                                           Kind{"restarts", {.restart_rows = 1}}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Jpeg, ReductionIsTheSmallestThatIsLargeEnough) {
  const auto jpeg = encode_jpeg(draw_image(400, 320));
  const Region region = {37, 21, 320, 256};
  ImageDecoder decoder;
  Image part;
  for (const auto& [wanted, reduction] : {std::pair(320, 1), {161, 1}, {160, 2}, {81, 2}, {80, 4}, {40, 8}, {5, 8}}) {
    (void)decoder.open(jpeg);
    const Box box = decoder.decode(region, wanted, 1, part);
    EXPECT_EQ(box.width, 320.0 / reduction);
    EXPECT_EQ(box.height, 256.0 / reduction);
    EXPECT_GE(box.x, 0);
    EXPECT_LE(box.x + box.width, part.width);
    EXPECT_LE(box.y + box.height, part.height);
  }
  (void)decoder.open(jpeg);
  EXPECT_EQ(decoder.decode(region, 1, 200, part).height, 256);  // the height counts too
}

TEST(Jpeg, ReducedPixelsAreMeansOfTheWhole) {
  const auto jpeg = encode_jpeg(draw_image(256, 192), {.quality = 98});
  const Image whole = decode_image(jpeg);
  ImageDecoder decoder;
  (void)decoder.open(jpeg);
  Image half;
  const Box box = decoder.decode({64, 32, 128, 96}, 64, 48, half);
  ASSERT_EQ(box.width, 64);
  double sum = 0;
  for (int y = 0; y < 48; ++y) {
    for (int x = 0; x < 3 * 64; ++x) {
      const auto at = [&](int dx, int dy) {
        return int{whole.row(32 + 2 * y + dy)[3 * (64 + 2 * (x / 3) + dx) + x % 3]};
      };
      const double mean = (at(0, 0) + at(1, 0) + at(0, 1) + at(1, 1)) / 4.0;
      sum += std::abs(mean - half.row(static_cast<int>(box.y) + y)[3 * static_cast<int>(box.x) + x]);
    }
  }
  EXPECT_LT(sum / (48 * 64 * 3), 1.5);
}

/// The image as a viewer shows it, by the definition of each orientation in the EXIF standard: where the stored
/// first row and first column are seen.
Image shown(const Image& stored, int orientation) {
  struct Corner {
    bool transposed, right, bottom;
  };
  constexpr Corner kCorners[] = {{false, false, false}, {false, true, false}, {false, true, true}, {false, false, true},
                                 {true, false, false},  {true, true, false},  {true, true, true},  {true, false, true}};
  const auto [transposed, right, bottom] = kCorners[orientation - 1];
  Image upright;
  transposed ? upright.resize(stored.height, stored.width) : upright.resize(stored.width, stored.height);
  for (int row = 0; row < stored.height; ++row) {
    for (int column = 0; column < stored.width; ++column) {
      const int across = transposed ? row : column;
      const int down = transposed ? column : row;
      const int x = right ? upright.width - 1 - across : across;
      const int y = bottom ? upright.height - 1 - down : down;
      std::copy_n(stored.row(row) + 3 * column, 3, upright.row(y) + 3 * x);
    }
  }
  return upright;
}

TEST(Jpeg, OrientationIsHonored) {
  std::mt19937 generator(2);
  const Image stored = decode_image(encode_jpeg(draw_image(90, 50)));
  ImageDecoder decoder;
  Image part;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto jpeg = encode_jpeg(draw_image(90, 50), {.orientation = orientation, .big_endian = orientation % 2 == 0});
    const Image expected = shown(stored, orientation);
    const ImageHeader header = decoder.open(jpeg);
    EXPECT_EQ(header.orientation, orientation);
    EXPECT_EQ(header.width, expected.width);
    EXPECT_EQ(header.height, expected.height);
    EXPECT_EQ(decode_image(jpeg).pixels, expected.pixels) << orientation;
    for (int i = 0; i < 20; ++i) {
      const Region region = random_region(generator, expected.width, expected.height);
      (void)decoder.open(jpeg);
      const Box box = decoder.decode(region, region.width, region.height, part);
      EXPECT_EQ(difference(expected, region, part, box), 0) << orientation;
    }
  }
}

TEST(Jpeg, HeaderSaysWhatIsStored) {
  ImageDecoder decoder;
  const auto plain = encode_jpeg(draw_image(30, 20));
  const ImageHeader header = decoder.open(plain);
  EXPECT_EQ(header.components, 3);
  EXPECT_EQ(header.format, ImageFormat::kJpeg);
  const auto gray = encode_jpeg(draw_image(30, 20), {.progressive = true, .color = Color::kGray});
  EXPECT_EQ(decoder.open(gray).components, 1);
  const auto ink = encode_jpeg(draw_image(30, 20), {.color = Color::kYcck});
  EXPECT_EQ(decoder.open(ink).components, 4);
}

TEST(Jpeg, InkIsInvertedWithOrWithoutAdobesMarker) {
  const Image image = draw_image(40, 30);
  const auto marked = encode_jpeg(image, {.quality = 98, .color = Color::kCmyk});
  const auto unmarked = encode_jpeg(image, {.quality = 98, .color = Color::kCmyk, .adobe_marker = false});
  ASSERT_LT(unmarked.size(), marked.size());
  EXPECT_LT(mean_difference(decode_image(marked), image), 3);
  EXPECT_EQ(decode_image(unmarked).pixels, decode_image(marked).pixels);
}

}  // namespace
}  // namespace mn::data
