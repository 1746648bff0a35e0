#include <cstdint>
#include <string>
#include <vector>

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

TEST(Text, NumbersAreParsedFromWholeTexts) {
  EXPECT_EQ(parse_number<int>("-7"), -7);
  EXPECT_EQ(parse_number<double>("2.5"), 2.5);
  for (const char* text : {"", " 7", "7 ", "7x", "0x7", "+7", "128"}) {
    EXPECT_EQ(parse_number<std::int8_t>(text), std::nullopt) << text;
  }
}

TEST(Text, BlanksAreTrimmedAtTheEnds) {
  EXPECT_EQ(trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(trimmed(" \t"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
}

TEST(Text, JoinPutsTheSeparatorBetweenItemsAlone) {
  EXPECT_EQ(join(std::vector<std::string>()), "");
  EXPECT_EQ(join(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(join(std::vector<std::string>{"", "b", ""}), ", b, ");
  EXPECT_EQ(join(std::vector{1, 2, 3}, ":"), "1:2:3");
  EXPECT_EQ(join(std::vector{1, 2}, ", ", [](int i) { return std::string(i, 'x'); }), "x, xx");
}

TEST(Text, DurationsHaveTwoUnits) {
  EXPECT_EQ(duration_text(0.123), "0.12 s");
  EXPECT_EQ(duration_text(59.9), "59 s");
  EXPECT_EQ(duration_text(60), "1 min");
  EXPECT_EQ(duration_text(3723), "1 h 2 min");
  EXPECT_EQ(duration_text(1e6), "11 d 13 h");
  EXPECT_EQ(duration_text(-1), "0 s");
}

TEST(Text, SizesHaveBinaryUnits) {
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(1023), "1023 bytes");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::uint64_t{312} << 20), "312 MiB");
  EXPECT_EQ(bytes_text(std::uint64_t{5000} << 40), "5000 TiB");
}

TEST(UnixTime, IsWrittenInUtc) {
  EXPECT_EQ(utc_text(1764057600.9), "2025-11-25T08:00:00Z");
  EXPECT_EQ(utc_text(1764057600, "%Y-%m-%d %H:%M UTC"), "2025-11-25 08:00 UTC");
}

}  // namespace
}  // namespace mn
