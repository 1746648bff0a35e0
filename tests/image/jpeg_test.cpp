#include <mn/image/jpeg.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/image/exif.hpp>
#include <mn/image/image_decoder.hpp>

#include "tests/image/jpeg_samples.hpp"

namespace mn::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Region random_region(std::mt19937& generator, int width, int height) {
  const auto below = [&](int n) { return static_cast<int>(generator() % static_cast<unsigned>(n)); };
  const int w = 1 + below(width);
  const int h = 1 + below(height);
  return {below(width - w + 1), below(height - h + 1), w, h};
}

/// Largest difference of a region of `whole` and the same in `part`, where it lies at `box`.
int difference(const Image& whole, const Region& region, const Image& part, const Box& box) {
  int most = 0;
  for (int y = 0; y < region.height; ++y) {
    const auto* a = whole.row(region.y + y) + 3 * region.x;
    const auto* b = part.row(static_cast<int>(box.y) + y) + 3 * static_cast<int>(box.x);
    for (int i = 0; i < 3 * region.width; ++i) most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

double mean_difference(const Image& a, const Image& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(a.pixels[i] - b.pixels[i]);
  return sum / static_cast<double>(a.pixels.size());
}

std::string error_of(std::span<const std::byte> bytes) {
  try {
    (void)decode_image(bytes);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

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
    const auto jpeg = encode_jpeg(make_picture(width, height), GetParam().options);
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

TEST_P(EveryKind, DecodesToThePictureThatWasEncoded) {
  const Image picture = make_picture(120, 90);
  JpegOptions options = GetParam().options;
  options.quality = 98;
  Image expected = picture;
  if (options.colour == Colour::kGray) {
    for (std::size_t i = 0; i < expected.pixels.size(); i += 3) {
      const auto* p = &picture.pixels[i];
      std::fill_n(&expected.pixels[i], 3, static_cast<std::uint8_t>(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2] + 0.5));
    }
  }
  EXPECT_LT(mean_difference(decode_image(encode_jpeg(picture, options)), expected), 3);
}

INSTANTIATE_TEST_SUITE_P(
    Jpeg, EveryKind,
    ::testing::Values(Kind{"h2v2", {}}, Kind{"h1v1", {.horizontal = 1, .vertical = 1}}, Kind{"h2v1", {.vertical = 1}},
                      Kind{"h1v2", {.horizontal = 1}}, Kind{"h4v1", {.horizontal = 4, .vertical = 1}},
                      Kind{"progressive", {.progressive = true}},
                      Kind{"progressive_h2v1", {.vertical = 1, .progressive = true}},
                      Kind{"gray", {.colour = Colour::kGray}},
                      Kind{"gray_progressive", {.progressive = true, .colour = Colour::kGray}},
                      Kind{"rgb", {.colour = Colour::kRgb}}, Kind{"cmyk", {.colour = Colour::kCmyk}},
                      Kind{"ycck", {.colour = Colour::kYcck}}, Kind{"restarts", {.restart_rows = 1}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Jpeg, ReductionIsTheSmallestThatIsLargeEnough) {
  const auto jpeg = encode_jpeg(make_picture(400, 320));
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
  const auto jpeg = encode_jpeg(make_picture(256, 192), {.quality = 98});
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

/// The picture as a viewer shows it, by the definition of each orientation in the EXIF standard: where the stored
/// first row and first column are seen.
Image shown(const Image& stored, int orientation) {
  Image upright;
  const int w = stored.width;
  const int h = stored.height;
  orientation >= 5 ? upright.resize(h, w) : upright.resize(w, h);
  for (int row = 0; row < h; ++row) {
    for (int column = 0; column < w; ++column) {
      int x = column;
      int y = row;
      switch (orientation) {
        case 2:
          x = w - 1 - column;
          break;  // row 0 top, column 0 right
        case 3:
          x = w - 1 - column;
          y = h - 1 - row;
          break;  // bottom, right
        case 4:
          y = h - 1 - row;
          break;  // bottom, left
        case 5:
          x = row;
          y = column;
          break;  // left, top
        case 6:
          x = h - 1 - row;
          y = column;
          break;  // right, top
        case 7:
          x = h - 1 - row;
          y = w - 1 - column;
          break;  // right, bottom
        case 8:
          x = row;
          y = w - 1 - column;
          break;  // left, bottom
        default:
          break;
      }
      std::copy_n(stored.row(row) + 3 * column, 3, upright.row(y) + 3 * x);
    }
  }
  return upright;
}

TEST(Jpeg, OrientationIsHonoured) {
  std::mt19937 generator(2);
  const Image stored = decode_image(encode_jpeg(make_picture(90, 50)));
  ImageDecoder decoder;
  Image part;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto jpeg =
        encode_jpeg(make_picture(90, 50), {.orientation = orientation, .big_endian = orientation % 2 == 0});
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
  const auto plain = encode_jpeg(make_picture(30, 20));
  const ImageHeader header = decoder.open(plain);
  EXPECT_EQ(header.components, 3);
  EXPECT_EQ(header.format, ImageFormat::kJpeg);
  const auto gray = encode_jpeg(make_picture(30, 20), {.progressive = true, .colour = Colour::kGray});
  EXPECT_EQ(decoder.open(gray).components, 1);
  const auto ink = encode_jpeg(make_picture(30, 20), {.colour = Colour::kYcck});
  EXPECT_EQ(decoder.open(ink).components, 4);
}

TEST(Jpeg, InkIsInvertedWithOrWithoutAdobesMarker) {
  const Image picture = make_picture(40, 30);
  const auto marked = encode_jpeg(picture, {.quality = 98, .colour = Colour::kCmyk});
  const auto unmarked = encode_jpeg(picture, {.quality = 98, .colour = Colour::kCmyk, .adobe_marker = false});
  ASSERT_LT(unmarked.size(), marked.size());
  EXPECT_LT(mean_difference(decode_image(marked), picture), 3);
  EXPECT_EQ(decode_image(unmarked).pixels, decode_image(marked).pixels);
}

TEST(Jpeg, TruncationIsDamageWhereItIsMet) {
  for (const bool progressive : {false, true}) {
    const auto jpeg = encode_jpeg(make_picture(160, 120), {.progressive = progressive});
    for (const std::size_t size : {std::size_t{3}, std::size_t{20}, jpeg.size() / 2, jpeg.size() - 40}) {
      EXPECT_THAT(error_of(std::span(jpeg).first(size)), StartsWith("damaged JPEG: ")) << size;
    }
  }
}

TEST(Jpeg, LackOfTheLastScansIsDamage) {
  const auto jpeg = encode_jpeg(make_picture(64, 48), {.progressive = true});
  const std::byte marker[] = {std::byte{0xFF}, std::byte{0xDA}};
  const auto last = std::find_end(jpeg.begin(), jpeg.end(), std::begin(marker), std::end(marker));
  EXPECT_THAT(error_of(std::span(jpeg.begin(), last)), StartsWith("damaged JPEG: "));
}

TEST(Jpeg, EveryFlippedByteIsAnErrorOrAPicture) {
  std::mt19937 generator(3);
  ImageDecoder decoder;
  Image part;
  for (const bool progressive : {false, true}) {
    const auto jpeg = encode_jpeg(make_picture(64, 48), {.progressive = progressive, .orientation = 6});
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
  const auto whole = encode_jpeg(make_picture(64, 48));
  EXPECT_EQ(decoder.open(whole).width, 64);  // it still works
}

TEST(Jpeg, TooManyPixelsAreRefused) {
  auto jpeg = encode_jpeg(make_picture(16, 16));
  const std::byte marker[] = {std::byte{0xFF}, std::byte{0xC0}};
  const auto frame = std::search(jpeg.begin(), jpeg.end(), std::begin(marker), std::end(marker));
  ASSERT_NE(frame, jpeg.end());
  std::fill_n(frame + 5, 4, std::byte{0xF0});  // height and width 61,680
  EXPECT_THAT(error_of(jpeg), HasSubstr("61680 × 61680 pixels"));
}

TEST(Jpeg, EndlessScansAreRefused) {
  const auto jpeg = encode_jpeg(make_picture(64, 48), {.progressive = true});
  const std::byte marker[] = {std::byte{0xFF}, std::byte{0xDA}};
  const auto first = std::search(jpeg.begin(), jpeg.end(), std::begin(marker), std::end(marker));
  const auto second = std::search(first + 2, jpeg.end(), std::begin(marker), std::end(marker));
  std::vector<std::byte> endless(jpeg.begin(), second);
  for (int i = 0; i < 300; ++i) endless.insert(endless.end(), first, second);
  EXPECT_THAT(error_of(endless), HasSubstr("scans"));
}

TEST(Jpeg, RegionOutsideIsAnError) {
  const auto jpeg = encode_jpeg(make_picture(16, 16));
  ImageDecoder decoder;
  Image part;
  for (const Region region : {Region{0, 0, 17, 1}, {-1, 0, 2, 2}, {0, 16, 1, 1}, {0, 0, 0, 1}}) {
    (void)decoder.open(jpeg);
    EXPECT_THROW((void)decoder.decode(region, 1, 1, part), ArgumentError);
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
