// The pairs of nodes that the self test measures, and the nodes at fault.
#include "selftest/pairs.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mn::selftest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PairsTest, EveryNodeIsMeasuredInFewRounds) {
  EXPECT_THAT(rounds_of_pairs(1), IsEmpty());
  for (const int nodes : {2, 3, 4, 5, 7, 8, 33, 64, 100, 1000}) {
    const auto rounds = rounds_of_pairs(nodes);
    EXPECT_LT((1 << rounds.size()) / 2, nodes) << "more rounds than needed";
    EXPECT_GE(1 << rounds.size(), nodes);
    std::set<int> measured;
    std::set<std::pair<int, int>> pairs;
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (const auto& [first, second] : round) {
        ASSERT_TRUE(0 <= first && first < second && second < nodes);
        EXPECT_TRUE(busy.insert(first).second && busy.insert(second).second) << "two partners in one round";
        EXPECT_TRUE(pairs.insert({first, second}).second) << "twice";
      }
      measured.merge(busy);
    }
    EXPECT_EQ(static_cast<int>(measured.size()), nodes) << "a node is left out";
  }
}

std::vector<std::string> texts_of(const std::vector<LinkFault>& faults) {
  std::vector<std::string> texts;
  for (const auto& fault : faults) texts.push_back(fault.text);
  return texts;
}

/// All pairs of all rounds at 1000 MB/s, except pairs with slow(pair), at 100.
template <typename Slow>
std::vector<Link> measured(int nodes, Slow slow) {
  std::vector<Link> links;
  for (const auto& round : rounds_of_pairs(nodes)) {
    for (const auto& pair : round) links.push_back({pair, true, 10, slow(pair) ? 100.0 : 1000.0});
  }
  return links;
}

std::vector<std::string> hosts(int nodes) {
  std::vector<std::string> names;
  for (int node = 0; node < nodes; ++node) names.push_back("vn" + std::to_string(node + 1));
  return names;
}

TEST(PairsTest, ASlowNodeIsNamedAndNobodyElse) {
  for (const int nodes : {3, 4, 5, 8, 100}) {
    for (const int bad : {1, 2, nodes - 1}) {
      const auto is_slow = [&](const Pair& pair) { return pair.first == bad || pair.second == bad; };
      auto links = measured(nodes, is_slow);
      for (const auto& pair : pairs_to_retry(nodes, links, 0)) {
        links.push_back({pair, true, 10, is_slow(pair) ? 100.0 : 1000.0});
      }
      const auto faults = judge_links(hosts(nodes), best_of_each_pair(links), 0);
      ASSERT_EQ(faults.size(), 1u) << nodes << " nodes, node " << bad;
      const std::string host = "vn" + std::to_string(bad + 1);
      EXPECT_THAT(faults[0].text, StartsWith("the network of " + host + ": "));
      EXPECT_THAT(faults[0].text, HasSubstr("reaches 100 MB/s, other pairs reach about 1000 MB/s"));
      EXPECT_THAT(faults[0].hosts, ElementsAre(host));
    }
  }
}

TEST(PairsTest, ASlowLinkBetweenGoodNodesIsNamed) {
  auto links = measured(8, [](const Pair& pair) { return pair == Pair{2, 3}; });
  const auto faults = judge_links(hosts(8), links, 0);
  EXPECT_THAT(texts_of(faults), ElementsAre("the link vn3 - vn4 reaches 100 MB/s, other pairs reach about 1000 MB/s"));
  EXPECT_THAT(faults[0].hosts, ElementsAre("vn3", "vn4"));
  links[1].answered = false;
  EXPECT_THAT(texts_of(judge_links(hosts(8), links, 0)), ElementsAre("the link vn3 - vn4 does not answer"));
}

TEST(PairsTest, APairThatWasSlowByChanceIsFastAtTheSecondTry) {
  auto links = measured(8, [](const Pair& pair) { return pair == Pair{2, 3}; });
  EXPECT_THAT(pairs_to_retry(8, links, 0), ::testing::Contains(Pair{2, 3}));
  links.push_back({{2, 3}, true, 10, 990});
  EXPECT_THAT(judge_links(hosts(8), best_of_each_pair(links), 0), IsEmpty());
}

TEST(PairsTest, HealthyPairsAreLeftAlone) {
  for (const int nodes : {1, 2, 3, 64}) {
    const auto links = measured(nodes, [](const Pair&) { return false; });
    EXPECT_THAT(pairs_to_retry(nodes, links, 0), IsEmpty());
    EXPECT_THAT(judge_links(hosts(nodes), links, 0), IsEmpty());
    EXPECT_THAT(judge_links(hosts(nodes), links, 900), IsEmpty());
  }
}

TEST(PairsTest, AFigureThatAllPairsShouldReachFailsThemAll) {
  const auto links = measured(4, [](const Pair&) { return false; });
  EXPECT_THAT(texts_of(judge_links(hosts(4), links, 38000)),
              ElementsAre("no pair of nodes reaches 38000 MB/s; the fastest reaches 1000 MB/s: does MPI use the fast "
                          "network?"));
  EXPECT_THAT(texts_of(judge_links(hosts(2), measured(2, [](const Pair&) { return false; }), 38000)),
              ElementsAre("the link vn1 - vn2 reaches 1000 MB/s"));
}

TEST(PairsTest, TheSecondTryIsShortHoweverManyPairsAreSlow) {
  const auto links = measured(1000, [](const Pair& pair) { return pair.first % 2 == 0; });
  EXPECT_LE(pairs_to_retry(1000, links, 0).size(), 32u);
}

TEST(PairsTest, AFabricThatCarriesLessThanAllAtOnceIsNotAtFault) {
  constexpr int kNodes = 256;
  constexpr int kOfASwitch = 16;
  for (const int bad : {-1, 100}) {
    const auto figure = [&](const Pair& pair, bool at_once) {
      const bool crosses = pair.first / kOfASwitch != pair.second / kOfASwitch;
      const bool is_slow = pair.first == bad || pair.second == bad;
      return Link{pair, true, 10, is_slow ? 100.0 : at_once && crosses ? 250.0 : 1000.0, at_once};
    };
    std::vector<Link> links;
    for (const auto& round : rounds_of_pairs(kNodes)) {
      for (const auto& pair : round) links.push_back(figure(pair, true));
    }
    for (int time = 0; time < 3; ++time) {
      for (const auto& pair : pairs_to_retry(kNodes, best_of_each_pair(links), 0)) links.push_back(figure(pair, false));
    }
    const auto faults = judge_links(hosts(kNodes), best_of_each_pair(links), 0);
    ASSERT_EQ(faults.size(), bad < 0 ? 0u : 1u) << ::testing::PrintToString(texts_of(faults));
    for (const auto& fault : faults) EXPECT_THAT(fault.hosts, ElementsAre("vn101"));
  }
}

}  // namespace
}  // namespace mn::selftest
