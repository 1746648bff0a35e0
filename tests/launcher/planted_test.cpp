// Differences between three nodes, each planted alone: a single line with the host and the cure. Once by the checks
// alone, once by all ranks of a job.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "planted_hardware.hpp"
#include "planted_software.hpp"
#include "simulated_job.hpp"

namespace mn::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

std::vector<Planted> all_planted() {
  std::vector<Planted> all(std::begin(kPlantedSoftware), std::end(kPlantedSoftware));
  all.insert(all.end(), std::begin(kPlantedHardware), std::end(kPlantedHardware));
  return all;
}

class PlantedTest : public ::testing::TestWithParam<Planted> {
 protected:
  /// The name of the check.
  static std::string check() {
    const std::string line = GetParam().line;
    const std::size_t begin = line.find('[') + 1;
    return line.substr(begin, line.find(']') - begin);
  }
};

std::string all_lines(const JobFacts& job) {
  std::string lines;
  for (const auto& finding : run_checks(job)) lines += to_line(finding) + "\n";
  return lines;
}

/// A single line, with a cure.
auto is_the_line_about(const Planted& planted, const std::string& begin, const std::string& host) {
  return AllOf(StartsWith(begin + planted.line + " " + host + ": "), HasSubstr(planted.what),
               MatchesRegex("[^\n]*; [^\n]*\n"));
}

TEST_P(PlantedTest, IsNamedWithHostAndCureAndNothingElse) {
  for (const std::size_t node : {1, 2}) {
    auto job = healthy_job();
    GetParam().spoil(job.nodes[node]);
    EXPECT_THAT(all_lines(job), is_the_line_about(GetParam(), "", "vn" + std::to_string(node + 1)));
  }
}

TEST_P(PlantedTest, IsLeftOutOrAWarningByItsName) {
  auto job = healthy_job();
  GetParam().spoil(job.nodes[2]);
  job.warn = {check()};
  EXPECT_THAT(all_lines(job), StartsWith("warning [" + check() + "] vn3: "));
  job.warn = {};
  job.skip = {check()};
  EXPECT_THAT(all_lines(job), ::testing::Not(HasSubstr("[" + check() + "]")));
}

TEST_P(PlantedTest, IsSaidByRankZeroOfAJob) {
  simulated::Job job;
  job.name = "planted_test " + std::to_string(getpid()) + " " + GetParam().name;
  job.nodes = simulated::in_blocks({2, 2, 2});
  job.node_facts = [](int node) {
    NodeFacts facts = healthy_node(node);
    if (node == 2) GetParam().spoil(facts);
    return facts;
  };
  job.rank_facts = [](int rank) { return healthy_job().rank(rank); };
  const auto endings = simulated::run(job);
  const bool is_error = std::string(GetParam().line).starts_with("error");
  EXPECT_THAT(endings[0].text, is_the_line_about(GetParam(), "mnlaunch: ", "vn3"));
  for (const auto& ending : endings) {
    EXPECT_EQ(ending.exit_code, is_error ? kExitCheckFailed : 0);
    EXPECT_TRUE(&ending == &endings[0] || ending.text.empty()) << ending.text;
  }
}

std::string name_of(const ::testing::TestParamInfo<Planted>& test) {
  std::string name = test.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Planted, PlantedTest, ::testing::ValuesIn(all_planted()), name_of);

TEST(PlantedTableTest, ThereAreManyOfThem) {
  std::set<std::string> kinds;
  for (const auto& planted : all_planted()) kinds.insert(std::string(planted.line) + planted.what);
  EXPECT_GE(kinds.size(), 50u);
}

}  // namespace
}  // namespace mn::launcher
