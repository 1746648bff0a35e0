// Errors of a build without libwebp, libtiff or libzstd.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/image/format_decoder.hpp>

#include "data/unpack.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(AbsentDecoders, NameTheLibraryAndTheRemedy) {
  const std::string of_webp = test::message_of<DataError>([] { (void)make_webp_decoder()->open({}); });
  const std::string of_tiff = test::message_of<DataError>([] { (void)make_tiff_decoder()->open({}); });
  EXPECT_THAT(of_webp, StartsWith("a WebP, and mn was built without libwebp: install it (libwebp-dev)"));
  EXPECT_THAT(of_tiff, StartsWith("a TIFF, and mn was built without libtiff"));
  EXPECT_THAT(of_tiff, HasSubstr("libtiff-dev"));
  const std::string of_zstd = test::message_of<DataError>([] { unpack_zstd("a.tar.zst", "a.tar"); });
  EXPECT_THAT(of_zstd,
              StartsWith("a.tar.zst is packed by zstd, and mn was built without libzstd: install it (libzstd-dev)"));
}

}  // namespace
}  // namespace mn::data
