// Ranks that never come, hang or die: all remaining ranks leave with an equal code, and a single line names the missing
// ranks.
#include "exchange_jobs.hpp"

namespace mn::launcher {
namespace {

using namespace exchange_jobs;
using ::testing::HasSubstr;

/// Rank `rank` takes part in the first round, and then ends as a killed process does.
Ending arrives_and_dies(const Job& job, int rank) {
  const Options options;
  Group group = simulated::group_of(job, rank);
  const ThisRank self{
      .options = options, .surroundings = {}, .program_exit = 0, .here = simulated::placement_of(job, group, rank)};
  Exchange exchange(std::move(group));
  try {
    static_cast<void>(arrive(exchange, self, true, [](Arrival&) {}));
  } catch (const CutOff& error) {
    return {.exit_code = error.exit_code(), .text = "", .at = {}};
  }
  return {};
}

TEST(ExchangeTest, RanksThatNeverComeAreNamed) {
  const std::vector<std::vector<int>> shapes = {simulated::in_blocks({3}), simulated::in_turn(12, 5),
                                                simulated::in_turn(40, 20), simulated::in_turn(20, 20)};
  at_once<std::vector<int>>(shapes, [](const auto& nodes) {
    const Job job = job_of(nodes, kShortPatience);
    const int last = job.size() - 1;
    const auto endings = run_with(job, last, never_comes);
    expect_exit(endings, kExitCheckFailed, {last});
    const std::string host = "vn" + std::to_string(job.node_of(last) + 1);
    EXPECT_THAT(endings[0].text, HasSubstr("error [tasks] " + host + ": rank " + std::to_string(last) + " of " +
                                           std::to_string(job.size()) + " did not arrive in 2 s; "));
    EXPECT_EQ(lines_of(endings).size(), 1U);
  });
}

TEST(ExchangeTest, ALeaderThatNeverComesIsOneLine) {
  // With a rank on the node, and with nodes below the node.
  at_once<int>({1, 4}, [](int victim) {
    const Job job = job_of(simulated::in_turn(40, 20), kShortPatience);
    const auto endings = run_with(job, victim, never_comes);
    expect_exit(endings, kExitCheckFailed, {victim});
    EXPECT_THAT(endings[0].text, HasSubstr("error [tasks] vn")) << victim;
    EXPECT_EQ(lines_of(endings).size(), 1U) << victim;
  });
}

TEST(ExchangeTest, RankZeroSaysWhoIsMissingWhereverItIs) {
  // Rank 0 is on the second node; the victims are a leader, a member, and the root's member.
  const Job job = job_of({1, 0, 1, 2, 0, 2}, milliseconds(1'000'000));
  for (const int victim : {3, 5, 4}) {
    const auto endings = run_with(job, victim, [&](const auto&) { return arrives_and_dies(job, victim); });
    expect_exit(endings, kExitCheckFailed, {victim});
    EXPECT_THAT(endings[0].text, HasSubstr(" of 6 ended before the start")) << victim;
    EXPECT_EQ(lines_of(endings).size(), 1U) << victim;
  }
}

TEST(ExchangeTest, WithoutRankZeroTheLowestRankThatIsThereSpeaks) {
  const Job job = job_of({1, 0, 0, 1}, milliseconds(1'000'000));
  const auto endings = run_with(job, 0, [&](const auto&) { return arrives_and_dies(job, 0); });
  expect_exit(endings, kExitCheckFailed, {0});
  EXPECT_THAT(endings[1].text, HasSubstr("error [tasks] vn2: ranks 0, 3 of 4 ended before the start"));
  EXPECT_EQ(lines_of(endings).size(), 1U);
}

TEST(ExchangeTest, ARankThatHangsHalfWayIsNamed) {
  // A member of the root's node, a leader with children, a member elsewhere.
  at_once<int>({20, 1, 39}, [](int victim) {
    const Job job = job_of(simulated::in_turn(40, 20), kShortPatience);
    const auto endings = run_with(job, victim, [&](const auto& wait_for_others) {
      Job hung = job;
      hung.rank_facts = [&](int) {
        wait_for_others();
        return RankFacts{};
      };
      return simulated::end_of(hung, victim);
    });
    expect_exit(endings, kExitCheckFailed, {victim});
    EXPECT_THAT(endings[0].text, HasSubstr("error [tasks] vn")) << victim;
    EXPECT_THAT(endings[0].text, HasSubstr("did not arrive in 2 s")) << victim;
    EXPECT_EQ(lines_of(endings).size(), 1U) << victim;
  });
}

TEST(ExchangeTest, ARankThatDiesIsNamedLongBeforeTheTimeOut) {
  const Job job = job_of(simulated::in_turn(40, 20), milliseconds(1'000'000));
  // A member of the root's node, a child of the root, a leaf, the leaf's member. Members end with their leader.
  for (const auto& [victim, ranks] :
       {std::pair(20, "rank 20"), {1, "ranks 1, 21"}, {19, "ranks 19, 39"}, {39, "rank 39"}}) {
    const auto endings = run_with(job, victim, [&](const auto&) { return arrives_and_dies(job, victim); });
    expect_exit(endings, kExitCheckFailed, {victim});
    EXPECT_THAT(endings[0].text, HasSubstr("error [tasks] vn" + std::to_string(job.node_of(victim) + 1) + ": " + ranks +
                                           " of 40 ended before the start"));
    EXPECT_EQ(lines_of(endings).size(), 1U) << victim;
  }
}

TEST(ExchangeTest, WithoutTheRootEveryoneEndsAndSomebodySpeaks) {
  const auto dies = [](const Job& job) -> Fault { return [&](const auto&) { return arrives_and_dies(job, 0); }; };
  at_once<bool>({true, false}, [&](bool comes) {
    const Job job = job_of(simulated::in_turn(40, 20), kShortPatience);
    const auto endings = run_with(job, 0, comes ? dies(job) : never_comes);
    expect_exit(endings, kExitCheckFailed, {0});
    for (const auto& line : lines_of(endings)) EXPECT_THAT(line, HasSubstr("; look for")) << line;
    EXPECT_GE(lines_of(endings).size(), 1U);
    EXPECT_LE(lines_of(endings).size(), 20U) << "one for each node";
  });
}

}  // namespace
}  // namespace mn::launcher
