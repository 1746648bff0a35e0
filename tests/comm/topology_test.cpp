// Topologies for the rank placements that launchers produce; pure.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/mpi/topology.hpp>
#include <mn/comm/node/numa_domains.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

using ::testing::ElementsAre;

/// intra_rank and inter_rank of each rank.
struct Placement {
  std::vector<int> intra;
  std::vector<int> inter;
  std::vector<int> intra_sizes;
};

Placement placement_of(const std::vector<std::string>& hosts) {
  Placement placement;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
    const Topology topology = make_topology(rank, hosts, hosts);
    placement.intra.push_back(topology.intra_rank);
    placement.inter.push_back(topology.inter_rank);
    placement.intra_sizes.push_back(topology.intra_size);
  }
  return placement;
}

TEST(Topology, OneRank) {
  const std::vector<std::string> hosts{"a"};
  const Topology topology = make_topology(0, hosts, hosts);
  EXPECT_EQ(topology.size, 1);
  EXPECT_EQ(topology.intra_size, 1);
  EXPECT_EQ(topology.inter_size, 1);
  EXPECT_TRUE(topology.uniform());
}

TEST(Topology, BlockDistributionWithUnevenNodes) {  // srun -N2 -n4 on nodes of four CPUs
  const auto placement = placement_of({"ma1", "ma1", "ma1", "ma2"});
  EXPECT_THAT(placement.intra, ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(placement.inter, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(placement.intra_sizes, ElementsAre(3, 3, 3, 1));
}

TEST(Topology, CyclicDistribution) {
  const auto placement = placement_of({"ma1", "ma2", "ma1", "ma1"});
  EXPECT_THAT(placement.intra, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(placement.inter, ElementsAre(0, 1, 0, 0));
}

TEST(Topology, PlaneDistribution) {  // -N3 -n7, plane=2
  const auto placement = placement_of({"ma1", "ma1", "ma2", "ma2", "ma3", "ma1", "ma1"});
  EXPECT_THAT(placement.intra, ElementsAre(0, 1, 0, 1, 0, 2, 3));
  EXPECT_THAT(placement.inter, ElementsAre(0, 0, 1, 1, 2, 0, 0));
}

TEST(Topology, ArbitraryDistributionOrdersNodesByTheirLowestRank) {  // Slurm and PMIx number ma2 as node 1 here
  const auto placement = placement_of({"ma2", "ma1", "ma2", "ma3"});
  EXPECT_THAT(placement.intra, ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(placement.inter, ElementsAre(0, 1, 0, 2));
}

TEST(Topology, TwoRanksOnEachOfThreeNodes) {
  const std::vector<std::string> hosts{"ma1", "ma1", "ma2", "ma2", "ma3", "ma3"};
  const auto placement = placement_of(hosts);
  EXPECT_THAT(placement.intra, ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(placement.inter, ElementsAre(0, 0, 1, 1, 2, 2));
  const Topology topology = make_topology(3, hosts, hosts);
  EXPECT_TRUE(topology.uniform());
  EXPECT_THAT(topology.ranks_of(2), ElementsAre(4, 5));
  EXPECT_THAT(topology.nodes, ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_EQ(topology.hosts, hosts);
}

TEST(Topology, UnevenNodesAreNotUniform) {
  const std::vector<std::string> hosts{"a", "a", "b"};
  EXPECT_FALSE(make_topology(0, hosts, hosts).uniform());
}

TEST(Topology, RanksOutOfRangeAreRefused) {
  const std::vector<std::string> hosts{"a", "b"};
  EXPECT_THROW(static_cast<void>(make_topology(2, hosts, hosts)), ArgumentError);
  EXPECT_THROW(static_cast<void>(make_topology(-1, hosts, hosts)), ArgumentError);
}

/// If ranks of a domain are not neighbors, or a rank has no domain, all ranks are one domain.
TEST(NumaDomains, AreBlocksOfNeighbors) {
  const auto borders_of = [](const std::vector<int>& domain_of) { return domain_borders(domain_of); };
  EXPECT_THAT(borders_of({4}), ElementsAre(0, 1));
  EXPECT_THAT(borders_of({1, 1, 0, 0, 0, 7}), ElementsAre(0, 2, 5, 6));
  EXPECT_THAT(borders_of({0, 1, 0, 1}), ElementsAre(0, 4));
  EXPECT_THAT(borders_of({0, 0, -1, 1}), ElementsAre(0, 4));
}

}  // namespace
}  // namespace mn
