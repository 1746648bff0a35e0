#include "launcher/place/slurm.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>

#include "captured.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(SlurmTest, ExpandsTaskCounts) {
  EXPECT_THAT(expand_task_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_task_counts("4"), ElementsAre(4));
  for (const char* bad : {"", "2(x)", "a", "2,,1", "0", "-1", "2(x3", "10000000(x10000000)", "1(x10000000),1"}) {
    EXPECT_THROW(static_cast<void>(expand_task_counts(bad)), UsageError) << bad;
  }
}

TEST(SlurmTest, DistributesAsSrunDoes) {
  EXPECT_THAT(distribute("block", 0, {3, 1}), Optional(ElementsAre(0, 0, 0, 1)));
  EXPECT_THAT(distribute("cyclic", 0, {3, 1}), Optional(ElementsAre(0, 1, 0, 0)));
  EXPECT_THAT(distribute("cyclic:block", 0, {1, 2}), Optional(ElementsAre(0, 1, 1)));
  EXPECT_THAT(distribute("plane", 2, {4, 2, 1}), Optional(ElementsAre(0, 0, 1, 1, 2, 0, 0)));
  EXPECT_EQ(distribute("arbitrary", 0, {1, 1}), std::nullopt);
}

TEST(SlurmTest, LayoutOfAnArbitraryStepComesFromItsHostFile) {
  const auto file = std::filesystem::temp_directory_path() / "mn_slurm_test_hosts";
  std::ofstream(file) << "ma2\nma1\nma2\nma3\n";
  auto variables = captured::step({2, 1, 1, "0,2"}, "ma[1-3]", "1,2,1", 4, "arbitrary");
  variables.set("SLURM_HOSTFILE", file.string());
  const auto layout = slurm_layout(variables);
  std::filesystem::remove(file);
  ASSERT_TRUE(layout);
  EXPECT_THAT(layout->nodes, ElementsAre(0, 1, 0, 2));
  EXPECT_THAT(layout->hosts, ElementsAre("ma2", "ma1", "ma3"));
}

TEST(SlurmTest, NoLayoutIsBetterThanOneThatContradictsTheTask) {
  EXPECT_EQ(slurm_layout(captured::step({2, 1, 1, "0,2"}, "ma[1-3]", "1,2,1", 4, "arbitrary")), std::nullopt);
}

}  // namespace
}  // namespace mn::launcher
