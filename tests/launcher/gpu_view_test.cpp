// With any view of a node's GPUs, the GPU at the index LOCAL_RANK is the rank's own.
#include "launcher/bind/affinity.hpp"

#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace mn::launcher {
namespace {

using Gpus = std::vector<VisibleGpu>;

VisibleGpu gpu(const std::string& uuid) { return {uuid, "0000:" + uuid}; }

struct Seen {
  std::string own;  ///< at the index LOCAL_RANK, as CUDA numbers the GPUs
  int local_rank = 0;
  std::size_t count = 0;  ///< GPUs that the rank sees
};

/// The GPUs that the node's ranks find, `granted` by rank.
std::vector<Seen> seen_by(const std::vector<Gpus>& granted, bool one_visible, bool oversubscribe = false) {
  Machine machine;
  machine.cores = {{{0}, 0}};
  std::vector<RankResources> ranks;
  for (const auto& gpus : granted) ranks.push_back({{0}, gpus});
  const auto bindings =
      bind_ranks(machine, ranks, {.bind_cores = false, .oversubscribe_gpu = oversubscribe, .cpu_map = {}});
  std::vector<Seen> all;
  for (std::size_t i = 0; i < granted.size(); ++i) {
    const GpuView view = view_gpus(granted[i], bindings[i], static_cast<int>(i), one_visible);
    std::vector<std::string> visible;
    for (const auto& each : granted[i]) visible.push_back(each.uuid);
    if (view.visible_devices) {
      visible.clear();
      std::istringstream list(*view.visible_devices);
      for (std::string uuid; std::getline(list, uuid, ',');) visible.push_back(uuid);
    }
    Seen seen{"", view.is_alone ? 0 : static_cast<int>(i), visible.size()};
    const auto index = static_cast<std::size_t>(seen.local_rank);
    if (index < visible.size()) seen.own = visible[index];
    EXPECT_EQ(visible.at(static_cast<std::size_t>(view.index)),
              granted[i].at(static_cast<std::size_t>(bindings[i].gpu)).uuid)
        << "MN_DEVICE is not the rank's own GPU";
    all.push_back(seen);
  }
  return all;
}

void expect_own_gpus(const std::vector<Seen>& ranks, std::size_t count) {
  std::set<std::string> owned;
  for (const auto& rank : ranks) {
    EXPECT_TRUE(!rank.own.empty() && owned.insert(rank.own).second) << "set_device(" << rank.local_rank << ")";
    EXPECT_EQ(rank.count, count);
  }
}

TEST(GpuViewTest, RanksThatSeeTheSameGpusKeepThem) {
  const Gpus all = {gpu("GPU-a"), gpu("GPU-b"), gpu("GPU-c")};
  const auto ranks = seen_by({all, all}, false);
  expect_own_gpus(ranks, 3);
  EXPECT_EQ(ranks[1].local_rank, 1);
}

TEST(GpuViewTest, WithOneVisibleEachRankIsAlone) {
  const Gpus all = {gpu("GPU-a"), gpu("GPU-b")};
  const auto ranks = seen_by({all, all}, true);
  expect_own_gpus(ranks, 1);
  for (const auto& rank : ranks) EXPECT_EQ(rank.local_rank, 0);
}

TEST(GpuViewTest, RanksToWhichTheSchedulerGaveOneGpuEachAreAlone) {
  expect_own_gpus(seen_by({{gpu("GPU-a")}, {gpu("GPU-b")}, {gpu("GPU-c")}}, false), 1);
  expect_own_gpus(seen_by({{gpu("GPU-a"), gpu("GPU-b")}, {gpu("GPU-c"), gpu("GPU-d")}}, false), 2);
}

TEST(GpuViewTest, AnotherGpuThanTheOneAtLocalRankComesToItsIndex) {
  const Gpus gpus = {gpu("GPU-a"), gpu("GPU-b"), gpu("GPU-c")};
  const Binding binding{.gpu = 2, .cpus = {}, .cores = 1, .nic = ""};
  const auto view = view_gpus(gpus, binding, 1, false);
  EXPECT_EQ(view.visible_devices, "GPU-a,GPU-c,GPU-b");
  EXPECT_EQ(view.index, 1);
  EXPECT_FALSE(view.is_alone);
}

TEST(GpuViewTest, RanksThatDifferInWhatTheySeeGetTheirOwn) {
  expect_own_gpus(seen_by({{gpu("GPU-a"), gpu("GPU-b")}, {gpu("GPU-b"), gpu("GPU-a")}}, false), 2);
}

TEST(GpuViewTest, EachRankSeesItsInstanceOnly) {
  const Gpus instances = {gpu("MIG-1"), gpu("MIG-2"), gpu("MIG-3")};
  expect_own_gpus(seen_by({instances, instances, instances}, false), 1);
  const Gpus mixed = {gpu("GPU-a"), gpu("MIG-1")};
  expect_own_gpus(seen_by({mixed, mixed}, false), 1);
}

TEST(GpuViewTest, RanksOfANodeThatShareGpusSeeTheirOwnAlone) {
  const Gpus both = {gpu("GPU-a"), gpu("GPU-b")};
  const auto ranks = seen_by({both, both, both}, false, true);
  std::vector<std::string> own;
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.count, 1u);
    EXPECT_EQ(rank.local_rank, 0);
    own.push_back(rank.own);
  }
  EXPECT_EQ(own, (std::vector<std::string>{"GPU-a", "GPU-b", "GPU-a"})) << "torch.cuda.set_device(LOCAL_RANK)";
}

TEST(GpuViewTest, WithoutAGpuThereIsNothingToSee) {
  const auto view = view_gpus({}, {}, 3, true);
  EXPECT_EQ(view.index, -1);
  EXPECT_EQ(view.visible_devices, std::nullopt);
  EXPECT_FALSE(view.is_alone);
}

}  // namespace
}  // namespace mn::launcher
