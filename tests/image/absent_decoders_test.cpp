// Errors of a build without libwebp or libtiff.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/image/tiff.hpp>
#include <mn/image/webp.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(AbsentDecoders, NameTheLibraryAndTheRemedy) {
  WebpDecoder webp;
  TiffDecoder tiff;
  const std::string of_webp = test::message_of<DataError>([&] { (void)webp.open({}); });
  const std::string of_tiff = test::message_of<DataError>([&] { (void)tiff.open({}); });
  EXPECT_THAT(of_webp, StartsWith("a WebP, and mn was built without libwebp: install it (libwebp-dev)"));
  EXPECT_THAT(of_tiff, StartsWith("a TIFF, and mn was built without libtiff"));
  EXPECT_THAT(of_tiff, HasSubstr("libtiff-dev"));
}

}  // namespace
}  // namespace mn::data
