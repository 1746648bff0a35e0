#include <algorithm>
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
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(std::string_view text) {
  ImageDecoder decoder;
  return test::message_of<DataError>([&] { (void)decoder.open(std::as_bytes(std::span(text.data(), text.size()))); });
}

std::string other(const std::string& format) {
  return "not a JPEG, PNG, WebP, TIFF, BMP, PPM or PGM but " + format + ": convert it to one of them, or leave it out";
}

TEST(ImageDecoder, OtherFormatsAreNamed) {
  EXPECT_EQ(error_of("GIF89a....."sv), other("GIF"));
  EXPECT_EQ(error_of("\0\0\0\x1C"
                     "ftypavif\0\0\0\0"sv),
            other("AVIF"));
  EXPECT_EQ(error_of("P3\n2 2\n255\n"sv), other("PPM in letters"));
  EXPECT_EQ(error_of("RIFF\1\2\3\4WAVE"sv), other("an unknown format"));
  EXPECT_EQ(error_of("no image"sv), other("an unknown format"));
  EXPECT_EQ(error_of(""sv), other("an empty file"));
}

TEST(ImageDecoder, OtherFilesAreNamed) {
  EXPECT_THAT(error_of("<!DOCTYPE html>\n<html>404"sv), HasSubstr("but HTML: a download gave a web page"));
  EXPECT_THAT(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:1\n"sv),
              HasSubstr("but a Git LFS pointer: fetch the file itself with `git lfs pull`"));
  EXPECT_THAT(error_of("\x1f\x8b\x08\0"sv), HasSubstr("but packed by gzip: unpack it"));
}

TEST(ImageDecoder, KindsOfJpegThatAreNotDecodedAreNoDamage) {
  const auto jpeg = encode_jpeg(draw_image(40, 30));
  const std::byte frame[] = {std::byte{0xFF}, std::byte{0xC0}};
  const auto at = std::ranges::search(jpeg, frame).begin() - jpeg.begin();
  const auto error_with = [&](std::ptrdiff_t offset, int value) {
    auto changed = jpeg;
    changed[static_cast<std::size_t>(at + offset)] = static_cast<std::byte>(value);
    return error_of({reinterpret_cast<const char*>(changed.data()), changed.size()});
  };
  EXPECT_EQ(
      error_with(4, 12),
      "a JPEG of 12 bits, which is not decoded: save it as a JPEG of 8 bits, baseline or progressive, or as a PNG");
  EXPECT_THAT(error_with(1, 0xC3), StartsWith("a lossless JPEG, which is not decoded: save it"));
  EXPECT_THAT(error_with(1, 0xC5), StartsWith("a hierarchical JPEG, which"));
  EXPECT_THAT(error_with(1, 0xF7), StartsWith("a JPEG-LS, which"));
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
