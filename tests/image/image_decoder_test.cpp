#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/image/image_decoder.hpp>

#include "tests/image/jpeg_samples.hpp"
#include "tests/image/png_samples.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using namespace std::string_view_literals;
using ::testing::StartsWith;

std::string error_of(std::string_view text) {
  ImageDecoder decoder;
  return test::message_of<DataError>([&] { (void)decoder.open(std::as_bytes(std::span(text.data(), text.size()))); });
}

std::string other(const std::string& format) {
  return "not a JPEG, PNG, WebP or TIFF but " + format + ": convert it to one of them, or leave it out";
}

TEST(ImageDecoder, OtherFormatsAreNamed) {
  EXPECT_EQ(error_of("GIF89a....."sv), other("GIF"));
  EXPECT_EQ(error_of("BM......"sv), other("BMP"));
  EXPECT_EQ(error_of("\0\0\0\x1C"
                     "ftypavif\0\0\0\0"sv),
            other("AVIF"));
  EXPECT_EQ(error_of("P6\n2 2\n255\n"sv), other("PPM"));
  EXPECT_EQ(error_of("RIFF\1\2\3\4WAVE"sv), other("an unknown format"));
  EXPECT_EQ(error_of("<html>"sv), other("an unknown format"));
  EXPECT_EQ(error_of(""sv), other("an empty file"));
}

TEST(ImageDecoder, DamagedMagicIsDamage) {
  EXPECT_THAT(error_of("\x89PNG\n\x1a\n\0\0\0\rIHDR"sv), StartsWith("damaged PNG: PNG file corrupted by ASCII"));
  EXPECT_THAT(error_of("\x89PNG"sv), StartsWith("damaged PNG: "));
  EXPECT_THAT(error_of("\xFF\xD8\xFF"sv), StartsWith("damaged JPEG: "));
}

TEST(ImageDecoder, TakesFormatsInTurnAndGoesOnAfterErrors) {
  const auto jpeg = encode_jpeg(draw_image(40, 30));
  const auto png = make_png();
  ImageDecoder decoder;
  const auto decode = [&](const std::vector<std::byte>& bytes) {
    const ImageHeader header = decoder.open(bytes);
    Image image;
    (void)decoder.decode({0, 0, header.width, header.height}, header.width, header.height, image);
    return image.pixels;
  };
  const auto expected = decode_image(jpeg).pixels;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(decode(jpeg), expected);
    EXPECT_EQ(decode(png.bytes), png.pixels.pixels);
    for (const auto* whole : {&jpeg, &png.bytes}) {
      EXPECT_THROW((void)decode({whole->begin(), whole->end() - 50}), DataError);
    }
    (void)decoder.open(png.bytes);  // and opening without decoding
  }
}

TEST(ImageDecoder, MustBeOpenedBeforeEachDecode) {
  const auto jpeg = encode_jpeg(draw_image(40, 30));
  const auto png = make_png();
  for (const auto* bytes : {&jpeg, &png.bytes}) {
    ImageDecoder decoder;
    Image image;
    const auto error = [&] {
      return test::message_of<ArgumentError>([&] { (void)decoder.decode({0, 0, 1, 1}, 1, 1, image); });
    };
    EXPECT_EQ(error(), "decode() without open()");
    (void)decoder.open(*bytes);
    (void)decoder.decode({0, 0, 1, 1}, 1, 1, image);
    EXPECT_EQ(error(), "decode() without open()");
    EXPECT_THROW((void)decoder.open({bytes->data(), 3}), DataError);  // not the image before it
    EXPECT_EQ(error(), "decode() without open()");
  }
}

}  // namespace
}  // namespace mn::data
