#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/host_list.hpp>

namespace mn {
namespace {

using ::testing::ElementsAre;
using Names = std::vector<std::string>;

TEST(ExpandHostList, PlainNames) {
  EXPECT_THAT(expand_host_list("head"), ElementsAre("head"));
  EXPECT_THAT(expand_host_list("b,a"), ElementsAre("b", "a"));
  EXPECT_TRUE(expand_host_list("").empty());
}

TEST(ExpandHostList, Ranges) {
  EXPECT_THAT(expand_host_list("vn[1,3-5],head"), ElementsAre("vn1", "vn3", "vn4", "vn5", "head"));
  EXPECT_THAT(expand_host_list("vn[08-11]"), ElementsAre("vn08", "vn09", "vn10", "vn11"));
  EXPECT_THAT(expand_host_list("vn[098-101]x"), ElementsAre("vn098x", "vn099x", "vn100x", "vn101x"));
  EXPECT_THAT(expand_host_list("r[1-2]n[0-1]"), ElementsAre("r1n0", "r1n1", "r2n0", "r2n1"));
}

TEST(ExpandHostList, RefusesMalformedLists) {
  for (const char* list : {"vn[", "vn]", "vn[1", "vn[]", "vn[a]", "vn[2-1]", "vn[1-]", "vn[[1]]", ",", "a,", "vn[1,]",
                           "vn[1-99999999999]", "vn[-1]"}) {
    EXPECT_THROW(static_cast<void>(expand_host_list(list)), ArgumentError) << list;
  }
}

TEST(ExpandHostList, RefusesWhatMemoryCannotHold) {
  std::string million_times_many = "vn[1-1000000";
  for (int i = 0; i < 100; ++i) million_times_many += ",1-1000000";
  std::string groups = "r";
  for (int i = 0; i < 100'000; ++i) groups += "[1]";
  for (const std::string& list :
       {std::string("vn[1-18446744073709551615]"), std::string("vn[0-18446744073709551615]"), million_times_many + "]",
        groups, "vn[" + std::string(100'000, '0') + "-999999]", std::string(100'000, 'x') + "[1-1000000]",
        std::string("a[1-999999],b[1-999999]"), std::string("r[1-1001]n[1-1000]")}) {
    try {
      static_cast<void>(expand_host_list(list));
      FAIL() << list.substr(0, 50);
    } catch (const ArgumentError& error) {
      EXPECT_LT(std::string(error.what()).size(), 300u);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_THAT(expand_host_list("vn[18446744073709551614-18446744073709551615]"),
              ElementsAre("vn18446744073709551614", "vn18446744073709551615"));
  EXPECT_THAT(expand_host_list("vn[18446744073709551615]"), ElementsAre("vn18446744073709551615"));
  EXPECT_EQ(expand_host_list("vn[1-1000000]").size(), 1'000'000u);
}

TEST(CompressHostList, ShortestForm) {
  EXPECT_EQ(compress_host_list({}), "");
  EXPECT_EQ(compress_host_list({"head"}), "head");
  EXPECT_EQ(compress_host_list({"vn2", "vn1", "head"}), "head,vn[1-2]");
  EXPECT_EQ(compress_host_list({"vn1", "vn1"}), "vn1");
  EXPECT_EQ(compress_host_list({"vn1", "vn3", "vn4"}), "vn[1,3-4]");
  EXPECT_EQ(compress_host_list({"7", "8"}), "[7-8]");
}

TEST(CompressHostList, WidthsAsSlurmWritesThem) {
  EXPECT_EQ(compress_host_list({"vn9", "vn10"}), "vn[9-10]");
  EXPECT_EQ(compress_host_list({"vn09", "vn10"}), "vn[09-10]");
  EXPECT_EQ(compress_host_list({"vn099", "vn100"}), "vn[099-100]");
  EXPECT_EQ(compress_host_list({"vn08", "vn09", "vn10", "vn100"}), "vn[08-10,100]");
}

TEST(AbridgeHostList, ManyOddNamesAreCounted) {
  EXPECT_EQ(abridge_host_list({"vn2", "vn1"}), "vn[1-2]");
  Names odd;
  for (int i = 0; i < 100; ++i) odd.push_back("host-" + std::to_string(i + 100) + "x");
  EXPECT_EQ(abridge_host_list(odd),
            "host-100x,host-101x,host-102x,host-103x,host-104x,host-105x,host-106x,host-107x and 92 more");
}

TEST(CompressHostList, ExpandsToTheSameNames) {
  const Names lists[] = {
      {"vn1", "vn01", "vn001"}, {"vn9", "vn09", "vn10"}, {"a0", "a00", "a1"}, {"x9", "x099", "x100"}};
  for (auto names : lists) {
    auto again = expand_host_list(compress_host_list(names));
    std::sort(names.begin(), names.end());
    std::sort(again.begin(), again.end());
    EXPECT_EQ(again, names);
  }
}

}  // namespace
}  // namespace mn
