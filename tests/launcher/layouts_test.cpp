// Many generated jobs: with any distribution, masks and GPUs, all ranks have the promised properties.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "launcher/bind/affinity.hpp"
#include "launcher/place/placement.hpp"
#include "placed.hpp"

namespace mn::launcher {
namespace {

constexpr int kLayouts = 12'000;

/// Deals `stride` ranks in turn to each node with room, as Slurm's distributions do.
std::vector<int> deal(int stride, std::vector<int> room) {
  std::vector<int> nodes;
  const int size = std::accumulate(room.begin(), room.end(), 0);
  while (static_cast<int>(nodes.size()) < size) {
    for (std::size_t n = 0; n < room.size(); ++n) {
      const int taken = std::min(stride, room[n]);
      nodes.insert(nodes.end(), static_cast<std::size_t>(taken), static_cast<int>(n));
      room[n] -= taken;
    }
  }
  return nodes;
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}
  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }
  bool chance(int in) { return upto(in - 1) == 0; }

  std::vector<int> tasks() {
    std::vector<int> counts(static_cast<std::size_t>(1 + upto(7)));
    for (int& count : counts) count = 1 + upto(8);
    return counts;
  }

  /// Node of each rank, by a distribution of Slurm's or by chance.
  std::vector<int> distribution(const std::vector<int>& tasks) {
    switch (upto(3)) {
      case 0:
        return deal(1 << 20, tasks);
      case 1:
        return deal(1, tasks);
      case 2:
        return deal(1 + upto(3), tasks);
      default:
        auto nodes = deal(1 << 20, tasks);
        std::ranges::shuffle(nodes, random_);
        return nodes;
    }
  }

  Machine machine() {
    Machine machine;
    const int packages = 1 + upto(1);
    const int cores = 1 + upto(15);
    const int threads = 1 + upto(1);
    const int total = packages * cores;
    std::vector<CpuSet> near(static_cast<std::size_t>(packages));
    for (int core = 0; core < total; ++core) {
      Core next{{}, core / cores};
      for (int thread = 0; thread < threads; ++thread) next.cpus.insert(core + thread * total);
      near[static_cast<std::size_t>(next.package)].insert(next.cpus.begin(), next.cpus.end());
      machine.cores.push_back(next);
    }
    const int gpus = upto(8);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const int package = upto(packages - 1);
      machine.gpus.push_back({std::to_string(gpu), near[static_cast<std::size_t>(package)], ""});
    }
    return machine;
  }

  std::vector<RankResources> ranks(const Machine& machine, int count) {
    CpuSet whole;
    for (const auto& core : machine.cores) whole.insert(core.cpus.begin(), core.cpus.end());
    const bool own_masks = chance(3) && static_cast<int>(machine.cores.size()) >= count;
    const bool own_gpus = chance(3);
    std::vector<RankResources> ranks;
    for (int rank = 0; rank < count; ++rank) {
      RankResources next{whole, {}};
      if (own_masks) next.mask = machine.cores[static_cast<std::size_t>(rank)].cpus;
      for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
        if (own_gpus && static_cast<int>(gpu) % count != rank) continue;
        next.gpus.push_back({"GPU-" + machine.gpus[gpu].bus_id, machine.gpus[gpu].bus_id});
      }
      ranks.push_back(next);
    }
    return ranks;
  }

 private:
  std::mt19937 random_;
};

void expect_sound(const Layout& layout, const std::vector<int>& ids) {
  int seen = -1;
  for (int rank = 0; rank < layout.size(); ++rank) {
    ASSERT_LE(layout.node_of(rank), seen + 1) << "nodes are not ordered by lowest rank";
    seen = std::max(seen, layout.node_of(rank));
  }
  std::set<int> all;
  for (int node = 0; node < layout.node_count(); ++node) {
    const auto ranks = layout.ranks_of(node);
    ASSERT_FALSE(ranks.empty());
    ASSERT_TRUE(std::ranges::is_sorted(ranks));
    for (const int rank : ranks) {
      ASSERT_TRUE(all.insert(rank).second) << "rank " << rank << " twice";
      ASSERT_EQ(ids[static_cast<std::size_t>(rank)], ids[static_cast<std::size_t>(ranks.front())]);
    }
  }
  ASSERT_EQ(static_cast<int>(all.size()), layout.size());
}

/// Each rank finds a placement alone, and no two ranks have equal placements.
void expect_placements(const Layout& layout, const ServerJob& job) {
  std::set<std::pair<int, int>> placements;
  for (int rank = 0; rank < layout.size(); ++rank) {
    ServerJob seen = job;
    seen.rank = rank;
    const auto here = placed_by(Launcher::kPmix, Variables(), seen);
    ASSERT_EQ(here.rank, rank);
    ASSERT_EQ(here.size, layout.size());
    ASSERT_EQ(here.inter_size, layout.node_count());
    ASSERT_EQ(here.intra_size, static_cast<int>(layout.ranks_of(here.inter_rank).size()));
    ASSERT_LT(here.intra_rank, here.intra_size);
    ASSERT_TRUE(placements.insert({here.inter_rank, here.intra_rank}).second) << "two ranks with one placement";
  }
}

void expect_sound(const Machine& machine, const std::vector<RankResources>& ranks, const BindingOptions& options) {
  const auto bindings = bind_ranks(machine, ranks, options);
  ASSERT_EQ(bindings.size(), ranks.size());
  std::set<std::string> gpus;
  std::set<std::string> visible;
  CpuSet used;
  std::size_t wanted = 0;
  bool divided = true;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (const auto& gpu : ranks[i].gpus) visible.insert(gpu.uuid);
    const auto& binding = bindings[i];
    ASSERT_GE(binding.cores, 1);
    ASSERT_FALSE(binding.cpus.empty());
    ASSERT_TRUE(std::ranges::includes(ranks[i].mask, binding.cpus)) << "outside of the scheduler's mask";
    wanted += binding.cpus.size();
    used.insert(binding.cpus.begin(), binding.cpus.end());
    divided = divided && machine.cores.size() >= ranks.size() && options.bind_cores;
    if (options.oversubscribe_gpu) {
      ASSERT_EQ(binding.gpu >= 0, !ranks[i].gpus.empty());
      continue;
    }
    ASSERT_FALSE(binding.shares_gpu);
    if (binding.gpu < 0) continue;
    ASSERT_TRUE(gpus.insert(ranks[i].gpus.at(static_cast<std::size_t>(binding.gpu)).uuid).second) << "a GPU twice";
  }
  if (divided) {
    ASSERT_EQ(used.size(), wanted) << "cores overlap";
  }
  const auto with_gpus = std::ranges::count_if(ranks, [](const auto& rank) { return !rank.gpus.empty(); });
  if (!options.oversubscribe_gpu) {
    ASSERT_EQ(gpus.size(), std::min(visible.size(), static_cast<std::size_t>(with_gpus))) << "a free GPU is left over";
  }
}

TEST(LayoutsTest, KeepTheirPromises) {
  Generator generate(20240607);
  for (int i = 0; i < kLayouts && !HasFatalFailure(); ++i) {
    SCOPED_TRACE("layout " + std::to_string(i));
    const auto tasks = generate.tasks();
    const auto ids = generate.distribution(tasks);
    ASSERT_EQ(static_cast<int>(ids.size()), std::accumulate(tasks.begin(), tasks.end(), 0));
    std::vector<std::string> names;
    for (const int id : ids) names.push_back("n" + std::to_string(id));
    const auto layout = make_layout(ids, names);
    expect_sound(layout, ids);
    expect_placements(layout, {"job", 0, ids, names});
    const int node = generate.upto(layout.node_count() - 1);
    const auto machine = generate.machine();
    const auto ranks = generate.ranks(machine, static_cast<int>(layout.ranks_of(node).size()));
    expect_sound(machine, ranks, {.bind_cores = !generate.chance(5), .oversubscribe_gpu = generate.chance(2)});
  }
}

}  // namespace
}  // namespace mn::launcher
