/// Divides the GPUs, cores and network cards of a node among the node's ranks, and shows each rank its GPU.
///
/// 1. bind_ranks() is a pure function: equal arguments give equal bindings on every rank.
/// 2. GPUs: as many ranks as possible get a GPU of their own among the GPUs that they see (a maximum matching). No rank
///    shares a GPU while a GPU that the rank sees is free.
/// 3. Cores: ranks with equal CPU masks divide the cores of the mask equally, and each rank first gets cores near its
///    GPU. If a mask belongs to a single rank, the rank keeps the whole mask.
///
/// Cost: for each rank, O(ranks x GPUs) in the worst case. Source: Kuhn's algorithm for bipartite matching.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mn/core/fields.hpp>

#include "bind/cpu_set.hpp"
#include "bind/machine.hpp"

namespace mn::launcher {

struct VisibleGpu {
  std::string uuid;    ///< GPU-…; MIG-… for an instance of a GPU
  std::string bus_id;  ///< as normal_bus_id() writes it
  bool is_amd = false;
  MN_FIELDS(uuid, bus_id, is_amd);
};

/// The CPUs and GPUs that the launcher gave a rank.
struct RankResources {
  CpuSet mask;                   ///< CPUs that the rank may run on
  std::vector<VisibleGpu> gpus;  ///< in the order in which CUDA shows them to the rank
  MN_FIELDS(mask, gpus);
  MN_NEEDED_FIELDS(mask, gpus);
};

struct BindingOptions {
  bool bind_cores = true;
  bool oversubscribe_gpu = false;
  /// --cpu-map: element i has the CPUs of rank i of the node. Ranks without an element are bound as without --cpu-map.
  std::vector<CpuSet> cpu_map = {};
};

struct Binding {
  int gpu = -1;                  ///< index into the rank's visible GPUs; -1: none
  CpuSet cpus;                   ///< CPUs to run on
  int cores = 1;                 ///< the rank's share of the cores in the mask
  std::string nic;               ///< empty: none
  bool shares_gpu = false;       ///< another rank of the node uses this GPU
  bool gpus_are_shared = false;  ///< ranks of the node share GPUs
  bool sees_alone = false;       ///< no other rank of the node sees a GPU that this rank sees
  // A missing binding must be an error: the rank would run on the GPUs and cores of other ranks.
  MN_FIELDS(gpu, cpus, cores, nic, shares_gpu, gpus_are_shared, sees_alone);
  MN_NEEDED_FIELDS(gpu, cpus, cores);
};

/// Returns a binding for each rank of the node. Ranks beyond the GPUs get none without options.oversubscribe_gpu.
[[nodiscard]] std::vector<Binding> bind_ranks(const Machine& machine, const std::vector<RankResources>& ranks,
                                              const BindingOptions& options);

/// The GPUs that a rank's program sees. torch.cuda.set_device(LOCAL_RANK) must select the rank's own GPU. If the ranks
/// of a node see the same GPUs, the rank's own GPU has the index LOCAL_RANK. If the rank is alone, it gets LOCAL_RANK 0
/// and its own GPU at index 0, as if the node had only one rank. A rank is alone
/// - if no other rank sees a GPU that the rank sees,
/// - if --gpu-visibility is "one",
/// - if ranks of the node share GPUs, because the node then has more ranks than GPU indices,
/// - or if the rank sees instances of GPUs, because CUDA shows a process at most one instance.
struct GpuView {
  /// The value for CUDA_VISIBLE_DEVICES (AMD: ROCR_VISIBLE_DEVICES). No value: the variable stays unchanged.
  std::optional<std::string> visible_devices;
  int index = -1;         ///< index of the rank's GPU in its view; -1: no GPU
  bool is_alone = false;  ///< the program gets LOCAL_RANK 0 and LOCAL_WORLD_SIZE 1
  bool is_amd = false;

  [[nodiscard]] std::string device() const {
    return index < 0 ? "cpu" : (is_amd ? "hip:" : "cuda:") + std::to_string(index);
  }
};

/// Chooses which of the granted `gpus` the program sees. `intra_rank` is the rank's position on the node.
[[nodiscard]] GpuView view_gpus(const std::vector<VisibleGpu>& gpus, const Binding& binding, int intra_rank,
                                bool one_visible);

}  // namespace mn::launcher
