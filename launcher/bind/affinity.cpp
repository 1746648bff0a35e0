#include "bind/affinity.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <utility>

#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

const GpuSlot* slot_of(const Machine& machine, const VisibleGpu& gpu) {
  const auto found = std::ranges::find(machine.gpus, gpu.bus_id, &GpuSlot::bus_id);
  return found == machine.gpus.end() ? nullptr : &*found;
}

using Wishes = std::vector<std::vector<std::string>>;  // the GPUs that each rank sees

/// Gives `rank` a GPU of its own, and moves other ranks to other GPUs if necessary. False if there is no such GPU. A
/// call finds an augmenting path of Kuhn's algorithm; `tried` has the GPUs already looked at on the path.
bool match(const Wishes& wishes, std::size_t rank, std::map<std::string, std::size_t>& owner,
           std::set<std::string>& tried) {
  // Free GPUs before taken GPUs: if all ranks see the same GPUs, rank i gets GPU i.
  for (const auto& gpu : wishes[rank]) {
    if (owner.try_emplace(gpu, rank).second) return true;
  }
  for (const auto& gpu : wishes[rank]) {
    if (!tried.insert(gpu).second || !match(wishes, owner.at(gpu), owner, tried)) continue;
    owner[gpu] = rank;
    return true;
  }
  return false;
}

bool is_near(const Machine& machine, const VisibleGpu& gpu, const CpuSet& mask) {
  const GpuSlot* slot = slot_of(machine, gpu);
  return slot != nullptr && !intersection(slot->near, mask).empty();
}

/// The GPUs that each rank sees, first those near the rank's CPUs (ranks may have different CPU masks).
Wishes wishes_of(const Machine& machine, const std::vector<RankResources>& ranks) {
  Wishes wishes;
  for (const auto& rank : ranks) {
    std::vector<std::string> near;
    std::vector<std::string> far;
    for (const auto& gpu : rank.gpus) (is_near(machine, gpu, rank.mask) ? near : far).push_back(gpu.uuid);
    near.insert(near.end(), far.begin(), far.end());
    wishes.push_back(std::move(near));
  }
  return wishes;
}

int index_of(const RankResources& rank, const std::string& uuid) {
  const auto found = std::ranges::find(rank.gpus, uuid, &VisibleGpu::uuid);
  return found == rank.gpus.end() ? -1 : static_cast<int>(found - rank.gpus.begin());
}

bool sees_alone(const std::vector<RankResources>& ranks, std::size_t i) {
  const auto has = [](const RankResources& rank, const std::string& uuid) { return index_of(rank, uuid) >= 0; };
  for (std::size_t other = 0; other < ranks.size(); ++other) {
    const bool overlaps =
        std::ranges::any_of(ranks[i].gpus, [&](const auto& gpu) { return has(ranks[other], gpu.uuid); });
    if (other != i && overlaps) return false;
  }
  return !ranks[i].gpus.empty();
}

[[maybe_unused]] bool are_free_gpus_used_first(const Wishes& wishes, const std::map<std::string, int>& users,
                                               const std::vector<Binding>& bindings) {
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const auto is_free = [&](const std::string& uuid) { return !users.contains(uuid) || users.at(uuid) == 0; };
    if (bindings[i].shares_gpu && std::ranges::any_of(wishes[i], is_free)) return false;
  }
  return true;
}

void assign_gpus(const Machine& machine, const std::vector<RankResources>& ranks, bool oversubscribe,
                 std::vector<Binding>& bindings) {
  const auto wishes = wishes_of(machine, ranks);
  std::map<std::string, std::size_t> owner;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::set<std::string> tried;
    match(wishes, i, owner, tried);
  }
  std::map<std::string, int> users;
  for (const auto& [uuid, rank] : owner) {
    bindings[rank].gpu = index_of(ranks[rank], uuid);
    users[uuid] = 1;
  }
  for (std::size_t i = 0; oversubscribe && i < ranks.size(); ++i) {
    if (bindings[i].gpu >= 0 || wishes[i].empty()) continue;
    // The first of the least used GPUs: ranks spread evenly and prefer near GPUs.
    const auto& least = *std::ranges::min_element(wishes[i], {}, [&](const auto& uuid) { return users[uuid]; });
    bindings[i].gpu = index_of(ranks[i], least);
    ++users[least];
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (bindings[i].gpu < 0) continue;
    bindings[i].shares_gpu = users[ranks[i].gpus[static_cast<std::size_t>(bindings[i].gpu)].uuid] > 1;
    bindings[i].sees_alone = sees_alone(ranks, i);
  }
  assert(are_free_gpus_used_first(wishes, users, bindings));
  const bool are_shared = std::ranges::any_of(bindings, &Binding::shares_gpu);
  for (auto& binding : bindings) binding.gpus_are_shared = are_shared;
}

std::vector<Core> cores_within(const Machine& machine, const CpuSet& mask) {
  std::vector<Core> cores;
  for (const auto& core : machine.cores) {
    CpuSet cpus = intersection(core.cpus, mask);
    if (!cpus.empty()) cores.push_back({std::move(cpus), core.package});
  }
  return cores;
}

const GpuSlot* slot_of_rank(const Machine& machine, const RankResources& rank, const Binding& binding) {
  return binding.gpu < 0 ? nullptr : slot_of(machine, rank.gpus[static_cast<std::size_t>(binding.gpu)]);
}

/// The package (processor socket) of the first core whose first CPU is in `near`; -1 if there is no such core.
int package_near(const std::vector<Core>& cores, const CpuSet& near) {
  // A core from a message may have no CPUs.
  const auto is_near = [&](const Core& core) { return !core.cpus.empty() && near.contains(*core.cpus.begin()); };
  const auto found = std::ranges::find_if(cores, is_near);
  return found == cores.end() ? -1 : found->package;
}

/// Divides `cores` equally among the ranks of `group`. The remainder goes to no rank.
void divide_cores(const Machine& machine, const std::vector<Core>& cores, const std::vector<RankResources>& ranks,
                  const std::vector<std::size_t>& group, std::vector<Binding>& bindings) {
  const std::size_t quota = cores.size() / group.size();
  std::vector<bool> taken(cores.size(), false);
  std::map<std::size_t, std::size_t> count;
  const auto take = [&](std::size_t rank, const auto& wanted) {
    for (std::size_t c = 0; c < cores.size() && count[rank] < quota; ++c) {
      if (taken[c] || !wanted(cores[c])) continue;
      taken[c] = true;
      ++count[rank];
      bindings[rank].cpus.insert(cores[c].cpus.begin(), cores[c].cpus.end());
    }
  };
  for (const std::size_t rank : group) bindings[rank].cpus.clear();
  // Before any rank gets far cores, all ranks choose near cores: first of the GPU's NUMA node, then of its package.
  for (const std::size_t rank : group) {
    if (const GpuSlot* gpu = slot_of_rank(machine, ranks[rank], bindings[rank])) {
      take(rank, [&](const Core& core) { return gpu->near.contains(*core.cpus.begin()); });
    }
  }
  for (const std::size_t rank : group) {
    if (const GpuSlot* gpu = slot_of_rank(machine, ranks[rank], bindings[rank])) {
      const int package = package_near(cores, gpu->near);
      take(rank, [&](const Core& core) { return core.package == package; });
    }
  }
  for (const std::size_t rank : group) take(rank, [](const Core&) { return true; });
  assert(std::ranges::all_of(group, [&](std::size_t rank) { return count[rank] == quota; }));
}

void assign_cores(const Machine& machine, const std::vector<RankResources>& ranks, bool bind,
                  std::vector<Binding>& bindings) {
  std::map<CpuSet, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    bindings[i].cpus = ranks[i].mask;
    groups[ranks[i].mask].push_back(i);
  }
  for (const auto& [mask, group] : groups) {
    const auto cores = cores_within(machine, mask);
    const std::size_t share = std::max<std::size_t>(1, cores.size() / group.size());
    for (const std::size_t rank : group) bindings[rank].cores = static_cast<int>(share);
    // With fewer cores than ranks, the kernel's scheduler does better than a fixed division.
    if (bind && group.size() > 1 && cores.size() >= group.size()) divide_cores(machine, cores, ranks, group, bindings);
  }
}

void apply_cpu_map(const Machine& machine, const std::vector<CpuSet>& map, std::vector<Binding>& bindings) {
  for (std::size_t i = 0; i < std::min(map.size(), bindings.size()); ++i) {
    bindings[i].cpus = map[i];
    bindings[i].cores = std::max(1, static_cast<int>(cores_within(machine, map[i]).size()));
  }
}

/// Returns a network card at the NUMA node of `cpus`, else a card in their package, else null.
const Nic* nearest_nic(const Machine& machine, const CpuSet& cpus) {
  const auto is_near = [&](const Nic& nic) { return !intersection(nic.near, cpus).empty(); };
  const int package = package_near(machine.cores, cpus);
  const auto is_in_package = [&](const Nic& nic) {
    return package >= 0 && package_near(machine.cores, nic.near) == package;
  };
  auto nearest = std::ranges::find_if(machine.nics, is_near);
  if (nearest == machine.nics.end()) nearest = std::ranges::find_if(machine.nics, is_in_package);
  return nearest == machine.nics.end() ? nullptr : &*nearest;
}

void assign_nics(const Machine& machine, const std::vector<RankResources>& ranks, std::vector<Binding>& bindings) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (const GpuSlot* gpu = slot_of_rank(machine, ranks[i], bindings[i]); gpu != nullptr && !gpu->nic.empty()) {
      bindings[i].nic = gpu->nic;
      continue;
    }
    if (const Nic* nic = nearest_nic(machine, bindings[i].cpus)) bindings[i].nic = nic->name;
  }
}

bool is_instance(const VisibleGpu& gpu) { return gpu.uuid.starts_with("MIG-"); }

std::string exchanged(std::vector<VisibleGpu> gpus, std::size_t a, std::size_t b) {
  std::swap(gpus[a], gpus[b]);
  return join(gpus, ",", &VisibleGpu::uuid);
}

}  // namespace

std::vector<Binding> bind_ranks(const Machine& machine, const std::vector<RankResources>& ranks,
                                const BindingOptions& options) {
  std::vector<Binding> bindings(ranks.size());
  assign_gpus(machine, ranks, options.oversubscribe_gpu, bindings);
  assign_cores(machine, ranks, options.bind_cores, bindings);
  apply_cpu_map(machine, options.cpu_map, bindings);
  assign_nics(machine, ranks, bindings);
  return bindings;
}

GpuView view_gpus(const std::vector<VisibleGpu>& gpus, const Binding& binding, int intra_rank, bool one_visible) {
  GpuView view;
  if (binding.gpu < 0) return view;
  const auto own = static_cast<std::size_t>(binding.gpu);
  assert(own < gpus.size());
  if (one_visible || binding.gpus_are_shared || std::ranges::any_of(gpus, is_instance)) {
    return {.visible_devices = gpus[own].uuid, .index = 0, .is_alone = true, .is_amd = gpus[own].is_amd};
  }
  view.is_amd = gpus[own].is_amd;
  view.is_alone = binding.sees_alone;
  view.index = view.is_alone ? 0 : intra_rank;
  if (view.index >= static_cast<int>(gpus.size())) view.index = binding.gpu;
  if (view.index != binding.gpu) view.visible_devices = exchanged(gpus, own, static_cast<std::size_t>(view.index));
  return view;
}

}  // namespace mn::launcher
