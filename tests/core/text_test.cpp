#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/text.hpp>
#include <mn/core/unix_time.hpp>

namespace mn {
namespace {

using ::testing::ElementsAre;

TEST(Text, HexadecimalHasAllDigitsOfItsType) {
  EXPECT_EQ(to_hex(std::uint32_t{0xC0FFEE}), "00c0ffee");
  EXPECT_EQ(to_hex(std::uint32_t{0xFEDCBA98}), "fedcba98");
  EXPECT_EQ(to_hex(std::uint64_t{0xC0FFEE}), "0000000000c0ffee");
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
}

TEST(UnixTime, IsWrittenInUtc) {
  EXPECT_EQ(utc_text(1764057600.9), "2025-11-25T08:00:00Z");
  EXPECT_EQ(utc_text(1764057600, "%Y-%m-%d %H:%M UTC"), "2025-11-25 08:00 UTC");
}

}  // namespace
}  // namespace mn
