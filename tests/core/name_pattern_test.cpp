#include <gtest/gtest.h>

#include <mn/core/name_pattern.hpp>

namespace mn {
namespace {

TEST(NamePattern, MatchesANameOrAModuleAroundIt) {
  constexpr const char* kName = "layer1.0.conv.weight";
  for (const char* pattern : {kName, "layer1", "layer?", "layer[12]", "layer1.0", "*.conv", "*weight", "*"}) {
    EXPECT_TRUE(matches_name(pattern, kName)) << pattern;
  }
  for (const char* pattern : {"", "layer", "conv", "conv.weight", "layer1.", "layer2", "*.bias", "Layer1"}) {
    EXPECT_FALSE(matches_name(pattern, kName)) << pattern;
  }
  EXPECT_FALSE(matches_name("layer1", "layer10.weight"));
  EXPECT_FALSE(matches_name("*", ""));
}

}  // namespace
}  // namespace mn
