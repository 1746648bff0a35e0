#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mn/core/suggest.hpp>

namespace mn {
namespace {

const std::vector<std::string> kNames = {"batchsize", "epoch", "sitting", "seed"};

TEST(NearestNameTest, CountsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(nearest_name("batchsise", kNames), "batchsize");
  EXPECT_EQ(nearest_name("epochs", kNames), "epoch");
  EXPECT_EQ(nearest_name("kitten", kNames), "sitting") << "three changes of six letters";
  EXPECT_EQ(nearest_name("sed", kNames), "seed");
}

TEST(NearestNameTest, ABeginningIsNear) {
  EXPECT_EQ(nearest_name("batch", kNames), "batchsize");
  EXPECT_EQ(nearest_name("ba", kNames), std::nullopt) << "two letters begin too much";
}

TEST(NearestNameTest, WhatIsFarIsNoSuggestion) {
  EXPECT_EQ(nearest_name("frobnicate", kNames), std::nullopt);
  EXPECT_EQ(nearest_name("epoch", {}), std::nullopt);
}

}  // namespace
}  // namespace mn
