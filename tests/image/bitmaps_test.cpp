// BMPs, PPMs and PGMs.
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/image/image_decoder.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string error_of(const std::string& file) {
  return test::message_of<DataError>([&] { (void)decode_image(bytes_of(file)); });
}

std::string number(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
  return text;
}

struct BmpKind {
  int bits = 24;
  std::uint32_t compression = 0;
  std::int32_t width = 3;
  std::int32_t height = 2;
  std::uint32_t colors = 0;
};

std::string bmp_header(const BmpKind& kind, std::size_t palette_bytes) {
  return "BM" + number(0, 8) + number(static_cast<std::uint32_t>(54 + palette_bytes), 4) + number(40, 4) +
         number(static_cast<std::uint32_t>(kind.width), 4) + number(static_cast<std::uint32_t>(kind.height), 4) +
         number(1, 2) + number(static_cast<std::uint32_t>(kind.bits), 2) + number(kind.compression, 4) + number(0, 12) +
         number(kind.colors, 4) + number(0, 4);
}

/// 3 × 2 pixels 1 2 3, 4 5 6, …, 16 17 18, as rows of R, G, B.
std::vector<std::uint8_t> counted() {
  std::vector<std::uint8_t> pixels;
  for (std::uint8_t i = 1; i <= 18; ++i) pixels.push_back(i);
  return pixels;
}

std::string counted_bmp(const BmpKind& kind = {}) {
  const std::string rows[] = {"\3\2\1\6\5\4\11\10\7\0\0\0"s, "\14\13\12\17\16\15\22\21\20\0\0\0"s};
  const bool top_down = kind.height < 0;
  return bmp_header(kind, 0) + rows[top_down ? 0 : 1] + rows[top_down ? 1 : 0];
}

std::string counted_ppm() {
  std::string file = "P6\n# by hand\n3 2 255\n";
  for (const std::uint8_t value : counted()) file += static_cast<char>(value);
  return file;
}

TEST(Bitmaps, PixelsAreThoseOfTheFile) {
  for (const std::string& file : {counted_bmp(), counted_bmp({.height = -2}), counted_ppm()}) {
    const Image image = decode_image(bytes_of(file));
    EXPECT_EQ(image.width, 3);
    EXPECT_EQ(image.height, 2);
    EXPECT_EQ(image.pixels, counted());
  }
  const std::string palette = number(0x112233, 4) + number(0x445566, 4);
  const Image two = decode_image(
      bytes_of(bmp_header({.bits = 1, .colors = 2}, palette.size()) + palette + "\x40\0\0\0"s + "\xA0\0\0\0"s));
  EXPECT_EQ(std::vector<std::uint8_t>(two.pixels.begin(), two.pixels.begin() + 6),
            (std::vector<std::uint8_t>{0x44, 0x55, 0x66, 0x11, 0x22, 0x33}));
  EXPECT_EQ(decode_image(bytes_of("P5 2 1 3\n\1\3")).pixels, (std::vector<std::uint8_t>{85, 85, 85, 255, 255, 255}));
}

TEST(Bitmaps, ColorsThatThePaletteLacksAreBlack) {
  const auto file_of = [](std::uint32_t colors) {
    std::string palette;
    for (std::uint32_t i = 0; i < colors; ++i) palette += number(0x112233, 4);
    return bmp_header({.bits = 8, .width = 1, .height = 1, .colors = colors}, palette.size()) + palette + "\3\0\0\0"s;
  };
  ImageDecoder decoder;  // the second image must not have colors of the first
  for (const std::uint32_t colors : {4, 2}) {
    const std::string file = file_of(colors);
    Image image;
    (void)decoder.open(bytes_of(file));
    (void)decoder.decode({0, 0, 1, 1}, 1, 1, image);
    EXPECT_EQ(image.pixels[0], colors == 4 ? 0x11 : 0);
  }
}

TEST(Bitmaps, HeadersSayWhatIsStored) {
  ImageDecoder decoder;
  const ImageHeader bmp = decoder.open(bytes_of(counted_bmp()));
  EXPECT_EQ(bmp.format, ImageFormat::kBmp);
  EXPECT_EQ(bmp.components, 3);
  EXPECT_EQ(bmp.bits, 8);
  const std::string deep = "P5 1 1 65535 \x80\x7F";
  const ImageHeader pgm = decoder.open(bytes_of(deep));
  EXPECT_EQ(pgm.format, ImageFormat::kPnm);
  EXPECT_EQ(pgm.components, 1);
  EXPECT_EQ(pgm.bits, 16);
  EXPECT_EQ(decode_image(bytes_of(deep)).pixels, (std::vector<std::uint8_t>{128, 128, 128}));
}

TEST(Bitmaps, ARegionIsDecodedAlone) {
  for (const std::string& file : {counted_bmp(), counted_ppm()}) {
    ImageDecoder decoder;
    (void)decoder.open(bytes_of(file));
    Image part;
    const Box box = decoder.decode({1, 1, 2, 1}, 1, 1, part);
    EXPECT_EQ(box.x, 0);
    EXPECT_EQ(part.pixels, (std::vector<std::uint8_t>{13, 14, 15, 16, 17, 18}));
  }
}

TEST(Bitmaps, KindsThatAreNotDecodedAreNamed) {
  EXPECT_EQ(error_of(counted_bmp({.bits = 8, .compression = 1})),
            "a BMP compressed by RLE, which is not decoded: save it as a PNG");
  EXPECT_THAT(error_of(counted_bmp({.compression = 4})), HasSubstr("compressed in the way 4"));
  EXPECT_THAT(error_of(counted_bmp({.bits = 2})), HasSubstr("of 2 bits a pixel"));
  EXPECT_THAT(error_of(counted_bmp({.bits = 8, .colors = 300})), StartsWith("damaged BMP: a palette of 300 colors"));
  EXPECT_THAT(error_of(counted_bmp({.width = 0})), StartsWith("damaged BMP: it has no width or height"));
  EXPECT_THAT(error_of(counted_bmp({.width = 70000, .height = 1})), StartsWith("BMP of 70000 × 1 pixels; at most"));
  EXPECT_THAT(error_of("P6 3 2 70000\n"), StartsWith("damaged PPM or PGM: values of 70000 levels"));
  EXPECT_THAT(error_of("P6 3 x"), HasSubstr("its header is not of the form"));
  EXPECT_THAT(error_of("P6 70000 1 255\n"), StartsWith("PPM or PGM of 70000 × 1 pixels; at most"));
}

TEST(Bitmaps, TruncationIsDamageEverywhere) {
  for (const std::string& file : {counted_bmp(), counted_ppm()}) {
    for (std::size_t size = 2; size < file.size(); ++size) {
      EXPECT_THAT(error_of(file.substr(0, size)), StartsWith("damaged ")) << size;
    }
  }
}

TEST(Bitmaps, AnyHeaderIsDamageOrAnImage) {
  std::mt19937 generator(7);
  int images = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string file = i % 2 == 0 ? counted_bmp({.bits = 8 << i % 3}) : counted_ppm();
    file[generator() % file.size()] = static_cast<char>(generator());
    try {
      images += decode_image(bytes_of(file)).width > 0 ? 1 : 0;
    } catch (const DataError&) {
    }
  }
  EXPECT_GT(images, 1000);
}

}  // namespace
}  // namespace mn::data
