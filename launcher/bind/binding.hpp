/// Which GPU, cores and network card each rank of a node gets.
///
/// 1. A pure function: every rank of the node computes the same bindings.
/// 2. GPUs: a maximum matching between ranks and the GPUs that each can see. None is used twice while another is free.
/// 3. Cores: ranks with equal masks divide them equally, near their GPUs first. A mask that the scheduler made for one
///    rank stays.
///
/// Cost: O(ranks x GPUs) for each rank in the worst case. Source: Kuhn's algorithm for bipartite matching.
#pragma once

#include <string>
#include <vector>

#include "bind/cpu_set.hpp"
#include "bind/machine.hpp"

namespace mn::launcher {

struct VisibleGpu {
  std::string uuid;    ///< GPU-…, or MIG-… of an instance
  std::string bus_id;  ///< as normal_bus_id() spells it
  bool is_amd = false;
  friend bool operator==(const VisibleGpu&, const VisibleGpu&) = default;
};

/// What one rank brings along.
struct RankResources {
  CpuSet mask;                   ///< CPUs that it may run on
  std::vector<VisibleGpu> gpus;  ///< in the order in which CUDA numbers them for it
  friend bool operator==(const RankResources&, const RankResources&) = default;
};

struct BindingOptions {
  bool bind_cores = true;
  bool oversubscribe_gpu = false;
  std::vector<CpuSet> cpu_map = {};  ///< of the node's first rank, second, …; ranks beyond it are bound as without
};

struct Binding {
  int gpu = -1;                  ///< index into the rank's visible GPUs; -1: none
  CpuSet cpus;                   ///< what to run on; the mask, where it is not narrowed
  int cores = 1;                 ///< cores among them that are this rank's share
  std::string nic;               ///< empty: none
  bool shares_gpu = false;       ///< another rank of the node uses the same GPU
  bool gpus_are_shared = false;  ///< that holds for some rank of the node
  bool sees_alone = false;       ///< no other rank of the node can see any of its GPUs
};

/// Element i is for the node's i-th rank. A rank that can see GPUs but gets none (more ranks than GPUs, and no
/// oversubscription) has gpu -1.
[[nodiscard]] std::vector<Binding> bind_ranks(const Machine& machine, const std::vector<RankResources>& ranks,
                                              const BindingOptions& options);

}  // namespace mn::launcher
