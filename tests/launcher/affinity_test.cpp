// Binding on recorded topologies of real machines, and on small made-up topologies.
#include "launcher/bind/affinity.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

#include "facts_equal.hpp"
#include "launcher/bind/cpu_set.hpp"
#include "launcher/facts/json_fields.hpp"
#include "tests/support/folders.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Machine recorded(const std::string& name) {
  return read_machine(test::source_folder() / "tests/launcher/topologies" / name);
}

using Map = std::map<std::string, int>;

CpuSet all_cpus(const Machine& machine) {
  CpuSet cpus;
  for (const auto& core : machine.cores) cpus.insert(core.cpus.begin(), core.cpus.end());
  return cpus;
}

std::vector<VisibleGpu> all_gpus(const Machine& machine) {
  std::vector<VisibleGpu> gpus;
  for (const auto& gpu : machine.gpus) gpus.push_back({"GPU-" + gpu.bus_id, gpu.bus_id});
  return gpus;
}

std::vector<RankResources> equal_ranks(const Machine& machine, std::size_t count) {
  return std::vector<RankResources>(count, {all_cpus(machine), all_gpus(machine)});
}

/// The first CPU of the GPU's NUMA node, by the GPU's address.
Map first_near(const Machine& machine) {
  Map first;
  for (const auto& gpu : machine.gpus) first[gpu.bus_id] = *gpu.near.begin();
  return first;
}

/// Two packages with `cores` each, of two hardware threads; GPUs alternate between the packages.
Machine made_up(int cores, int gpus) {
  Machine machine;
  machine.numa_nodes = 2;
  CpuSet near[2];
  for (int core = 0; core < 2 * cores; ++core) {
    machine.cores.push_back({{core, core + 2 * cores}, core / cores});
    near[core / cores].insert({core, core + 2 * cores});
  }
  for (int gpu = 0; gpu < gpus; ++gpu) {
    machine.gpus.push_back({"0000:0" + std::to_string(gpu) + ":00.0", near[gpu % 2], ""});
  }
  return machine;
}

TEST(TopologyTest, GpusAndCardsOfFourH200) {
  const auto machine = recorded("h200x4-turin.xml");
  EXPECT_EQ(first_near(machine),
            (Map{{"0000:06:00.0", 16}, {"0000:16:00.0", 32}, {"0000:96:00.0", 96}, {"0000:e6:00.0", 112}}));
  EXPECT_EQ(join(machine.gpus, " ", &GpuSlot::nic), "mlx5_0 mlx5_3 mlx5_4 mlx5_5");
}

TEST(TopologyTest, GpusOfEightT4) {
  Map expected;
  for (const char* bus : {"18", "19", "35", "36"}) expected["0000:" + std::string(bus) + ":00.0"] = 0;
  for (const char* bus : {"e7", "e8", "f4", "f5"}) expected["0000:" + std::string(bus) + ":00.0"] = 24;
  EXPECT_EQ(first_near(recorded("g4dnmetal.xml")), expected);
}

TEST(TopologyTest, GpusOfTioga) {
  EXPECT_EQ(first_near(recorded("eas-tioga.xml")), (Map{{"0000:c1:00.0", 48},
                                                        {"0000:c6:00.0", 56},
                                                        {"0000:c9:00.0", 16},
                                                        {"0000:ce:00.0", 24},
                                                        {"0000:d1:00.0", 0},
                                                        {"0000:d6:00.0", 8},
                                                        {"0000:d9:00.0", 32},
                                                        {"0000:de:00.0", 40}}));
}

TEST(TopologyTest, GpusFoundByPciAlone) {
  const auto dgx2 = recorded("dgx2.xml");
  ASSERT_EQ(dgx2.gpus.size(), 16u);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(dgx2.gpus[i].near, dgx2.gpus[i / 8 * 8].near) << dgx2.gpus[i].bus_id;
  EXPECT_NE(dgx2.gpus[0].near, dgx2.gpus[8].near);
  EXPECT_EQ(recorded("coral-lassen.xml").gpus.size(), 4u);
}

/// A rank for each GPU: disjoint cores on the NUMA node of the rank's GPU, if the node has enough cores.
void expect_near(const std::string& name) {
  const auto machine = recorded(name);
  const auto bindings = bind_ranks(machine, equal_ranks(machine, machine.gpus.size()), {});
  std::set<int> used;
  std::set<int> gpus;
  for (const auto& binding : bindings) {
    ASSERT_GE(binding.gpu, 0) << name;
    EXPECT_TRUE(gpus.insert(binding.gpu).second) << name << ": GPU " << binding.gpu << " twice";
    EXPECT_EQ(binding.cores, static_cast<int>(machine.cores.size() / machine.gpus.size()));
    for (const int cpu : binding.cpus) EXPECT_TRUE(used.insert(cpu).second) << name << ": CPU " << cpu << " twice";
    const auto& near = machine.gpus[static_cast<std::size_t>(binding.gpu)].near;
    EXPECT_FALSE(intersection(near, binding.cpus).empty()) << name << ": GPU " << binding.gpu << " is far";
  }
}

TEST(BindingTest, RecordedMachinesBindNearTheirGpus) {
  for (const char* name : {"h200x4-turin.xml", "g4dnmetal.xml", "eas-tioga.xml", "coral-lassen.xml"}) {
    expect_near(name);
  }
}

TEST(BindingTest, WithoutAGpuTheCardOfTheNumaNodeIsNearestThenOneOfThePackage) {
  const auto machine = recorded("h200x4-turin.xml");
  const auto card = [&](int core) {
    return bind_ranks(machine, {{machine.cores[static_cast<std::size_t>(core)].cpus, {}}}, {})[0].nic;
  };
  EXPECT_EQ(card(0), "mlx5_0");   // the NUMA node has none
  EXPECT_EQ(card(32), "mlx5_3");  // the third of eight NUMA nodes
  EXPECT_EQ(card(64), "mlx5_4");  // the other package
}

TEST(BindingTest, WithoutGpusRanksShareTheCoresInOrder) {
  const auto machine = made_up(2, 0);
  const auto bindings = bind_ranks(machine, equal_ranks(machine, 2), {});
  EXPECT_THAT(bindings[0].cpus, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(bindings[1].cpus, ElementsAre(2, 3, 6, 7));
  EXPECT_EQ(bindings[0].cores, 2);
  EXPECT_EQ(bindings[0].gpu, -1);
}

TEST(BindingTest, FewerCoresThanRanksAreLeftToTheKernel) {
  const auto machine = made_up(1, 0);
  const auto bindings = bind_ranks(machine, equal_ranks(machine, 3), {});
  for (const auto& binding : bindings) {
    EXPECT_EQ(binding.cpus, all_cpus(machine));
    EXPECT_EQ(binding.cores, 1);
  }
}

TEST(BindingTest, AMaskOfTheSchedulerStays) {
  const auto machine = made_up(4, 0);
  const auto bindings = bind_ranks(machine, {{{0, 1}, {}}, {{2, 3, 4}, {}}}, {});
  EXPECT_THAT(bindings[0].cpus, ElementsAre(0, 1));
  EXPECT_THAT(bindings[1].cpus, ElementsAre(2, 3, 4));
  EXPECT_EQ(bindings[1].cores, 3);
}

TEST(BindingTest, BindingCanBeOff) {
  const auto machine = made_up(2, 2);
  const auto bindings = bind_ranks(machine, equal_ranks(machine, 2), {.bind_cores = false});
  EXPECT_EQ(bindings[0].cpus, all_cpus(machine));
  EXPECT_EQ(bindings[0].cores, 2);
  EXPECT_EQ(bindings[1].gpu, 1);
}

TEST(BindingTest, AMaskNearOneGpuGetsThatGpu) {
  const auto machine = made_up(2, 2);
  const auto gpus = all_gpus(machine);
  const auto bindings = bind_ranks(machine, {{{2, 3}, gpus}, {{0, 1}, gpus}}, {});
  EXPECT_EQ(bindings[0].gpu, 1);
  EXPECT_EQ(bindings[1].gpu, 0);
}

TEST(BindingTest, GpusThatOnlyOneRankCanSeeGoToIt) {
  const auto machine = made_up(4, 2);
  const auto gpus = all_gpus(machine);
  // Rank 0 sees both, rank 1 the first only: a greedy choice would leave rank 1 without.
  const auto bindings = bind_ranks(machine, {{all_cpus(machine), gpus}, {all_cpus(machine), {gpus[0]}}}, {});
  EXPECT_EQ(bindings[0].gpu, 1);
  EXPECT_EQ(bindings[1].gpu, 0);
}

TEST(BindingTest, MoreRanksThanGpusNeedsOversubscription) {
  const auto machine = made_up(4, 2);
  const auto strict = bind_ranks(machine, equal_ranks(machine, 4), {});
  EXPECT_EQ(std::ranges::count(strict, -1, &Binding::gpu), 2);
  const auto shared = bind_ranks(machine, equal_ranks(machine, 4), {.oversubscribe_gpu = true});
  EXPECT_EQ(std::ranges::count(shared, 0, &Binding::gpu), 2);
  EXPECT_EQ(std::ranges::count(shared, 1, &Binding::gpu), 2);
  EXPECT_TRUE(std::ranges::all_of(shared, &Binding::shares_gpu));
}

TEST(BindingTest, MachineSurvivesItsJson) {
  const auto machine = recorded("g4dnmetal.xml");
  Machine copy;
  json_fields::read(json_fields::write(machine), "", copy);
  EXPECT_EQ(copy, machine);
  EXPECT_LT(nlohmann::json::to_cbor(json_fields::write(recorded("h200x4-turin.xml"))).size(), 8u << 10);
}

TEST(BindingTest, AMapOfCpusOverridesTheMasks) {
  const auto machine = made_up(2, 0);
  const auto ranks = equal_ranks(machine, 3);
  const auto bindings =
      bind_ranks(machine, ranks, {.bind_cores = true, .oversubscribe_gpu = false, .cpu_map = {{0, 4}, {1, 2}}});
  EXPECT_THAT(bindings[0].cpus, ElementsAre(0, 4));
  EXPECT_EQ(bindings[0].cores, 1) << "two hardware threads of one core";
  EXPECT_THAT(bindings[1].cpus, ElementsAre(1, 2));
  EXPECT_EQ(bindings[1].cores, 2);
}

TEST(CpuSetTest, AStrictListHasNothingElse) {
  EXPECT_THAT(parse_cpus_strictly("0-2,8"), ::testing::Optional(ElementsAre(0, 1, 2, 8)));
  for (const char* bad : {"", ",", "1,", "1,,2", "a", "1-", "-1", "2-1", "1 2", "0-9999999", "1-2-3"}) {
    EXPECT_EQ(parse_cpus_strictly(bad), std::nullopt) << bad;
  }
}

TEST(CpuSetTest, AMalformedListIsEmpty) {
  EXPECT_THAT(parse_cpus("0-2,8"), ElementsAre(0, 1, 2, 8));
  for (const char* bad : {"", "1,x,3", "-2147483648-3", "65536-2147483647"})
    EXPECT_THAT(parse_cpus(bad), IsEmpty()) << bad;
}

}  // namespace
}  // namespace mn::launcher
