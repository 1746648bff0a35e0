#include "launcher/checks/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "healthy.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> lines(const NodeValues& values, NoValue no_value = NoValue::kSkip) {
  JobFacts job;
  for (std::size_t node = 0; node < values.size(); ++node) {
    job.layout.hosts.push_back("vn" + std::to_string(node + 1));
    job.nodes.emplace_back();
  }
  std::vector<std::string> texts;
  for (const auto& finding : differences(job, {"cpu", false, {}, "the kernel", "act"}, values, no_value)) {
    texts.push_back(to_line(finding));
  }
  return texts;
}

TEST(ComparisonTest, TheMostCommonValueIsUsual) {
  EXPECT_THAT(lines({"5", "6", "6"}), ElementsAre("warning [cpu] vn1: the kernel is 5, but 6 on other nodes; act"));
  EXPECT_THAT(lines({"5", "6"}), ElementsAre("warning [cpu] vn2: the kernel is 6, but 5 on other nodes; act"));
  EXPECT_THAT(lines({"5", ""}), ElementsAre("warning [cpu] vn2: the kernel is empty, but 5 on other nodes; act"));
  EXPECT_THAT(lines({"5", "5"}), IsEmpty());
  EXPECT_THAT(lines({}), IsEmpty());
}

TEST(ComparisonTest, NodesWithoutAValueAreSkipped) {
  EXPECT_THAT(lines({std::nullopt, std::nullopt, "5"}), IsEmpty());
  EXPECT_THAT(lines({std::nullopt, std::nullopt, "5", "6"}),
              ElementsAre("warning [cpu] vn4: the kernel is 6, but 5 on other nodes; act"));
}

TEST(ComparisonTest, NodesWithoutAValueAreReportedWhereACheckSaysSo) {
  EXPECT_THAT(lines({std::nullopt, std::nullopt, "5"}, NoValue::kReport),
              ElementsAre("warning [cpu] vn[1-2]: the kernel is not known, but 5 on other nodes; act"));
  EXPECT_THAT(lines({std::nullopt, std::nullopt}, NoValue::kReport), IsEmpty()) << "nothing to compare with";
}

TEST(ComparisonTest, FactsOfAnyTypeBecomeText) {
  JobFacts job;
  job.nodes = {healthy_node(0)};
  EXPECT_THAT(values_of(job, [](const NodeFacts& node) { return node.machine.numa_nodes; }), ElementsAre("2"));
  EXPECT_THAT(values_of(job, [](const NodeFacts& node) { return node.system.output.shared; }), ElementsAre("true"));
  EXPECT_THAT(values_of(job, [](const NodeFacts&) { return std::optional<int>(); }), ElementsAre(std::nullopt));
}

}  // namespace
}  // namespace mn::launcher
