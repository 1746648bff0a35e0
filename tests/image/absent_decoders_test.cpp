// Errors of a build without libwebp, libtiff, libzstd or liblzma.
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
  const std::string of_zstd = test::message_of<DataError>([] { (void)open_zstd("a.tar.zst"); });
  EXPECT_THAT(of_zstd,
              StartsWith("a.tar.zst is packed by zstd, and mn was built without libzstd: install it (libzstd-dev)"));
  const std::string of_xz = test::message_of<DataError>([] { (void)open_xz("a.txt.xz"); });
  EXPECT_THAT(of_xz,
              StartsWith("a.txt.xz is packed by xz, and mn was built without liblzma: install it (liblzma-dev)"));
}

}  // namespace
}  // namespace mn::data
