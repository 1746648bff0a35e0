/// Divides the GPUs, cores and network cards of a node among its ranks, and shows each rank its GPU.
///
/// 1. bind_ranks() is a pure function: equal arguments give equal bindings on every rank.
/// 2. GPUs: a maximum matching between ranks and visible GPUs. No rank shares a GPU while a GPU that it sees is free.
/// 3. Cores: ranks with equal CPU masks divide the mask's cores equally; each rank gets cores near its GPU first. If no
///    other rank has a rank's mask, the rank keeps the whole mask.
///
/// Cost: O(ranks x GPUs) for each rank in the worst case. Source: Kuhn's algorithm for bipartite matching.
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
  friend bool operator==(const VisibleGpu&, const VisibleGpu&) = default;
};

/// Resources that the launcher gave a rank.
struct RankResources {
  CpuSet mask;                   ///< CPUs that the rank may run on
  std::vector<VisibleGpu> gpus;  ///< in the order in which CUDA shows them to the rank
  // A message without `mask` or `gpus` is an error, because bindings are computed from both.
  MN_FIELDS(mask, gpus);
  MN_NEEDED_FIELDS(mask, gpus);
  friend bool operator==(const RankResources&, const RankResources&) = default;
};

struct BindingOptions {
  bool bind_cores = true;
  bool oversubscribe_gpu = false;
  /// Element i has the CPUs for the node's i-th rank. Ranks beyond the end of the map are bound as without a map.
  std::vector<CpuSet> cpu_map = {};
};

struct Binding {
  int gpu = -1;                  ///< index into the rank's visible GPUs; -1: none
  CpuSet cpus;                   ///< CPUs to run on; the whole mask if the mask is not divided
  int cores = 1;                 ///< this rank's share of the cores in its mask
  std::string nic;               ///< empty: none
  bool shares_gpu = false;       ///< another rank of the node uses this GPU
  bool gpus_are_shared = false;  ///< ranks of the node share GPUs
  bool sees_alone = false;       ///< no other rank of the node sees a GPU that this rank sees
  // A message without the needed fields is an error: a rank would start unbound, on GPUs and cores of other ranks.
  MN_FIELDS(gpu, cpus, cores, nic, shares_gpu, gpus_are_shared, sees_alone);
  MN_NEEDED_FIELDS(gpu, cpus, cores);
};

/// Returns the bindings of a node's ranks; element i belongs to the node's i-th rank. If there are more ranks than GPUs
/// and GPUs must not be oversubscribed, Binding::gpu is -1 for some ranks.
[[nodiscard]] std::vector<Binding> bind_ranks(const Machine& machine, const std::vector<RankResources>& ranks,
                                              const BindingOptions& options);

/// The GPUs that a rank's program sees. torch.cuda.set_device(LOCAL_RANK) must select the rank's own GPU. If the ranks
/// of a node see the same GPUs, each rank sees its own GPU at the index LOCAL_RANK. For a rank that is alone, its own
/// GPU has index 0 and LOCAL_RANK is 0, as with one rank on the node. A rank is alone if no other rank sees its GPUs,
/// if --gpu-visibility is "one", if ranks of the node share GPUs (because then the GPUs have fewer indices than the
/// node has ranks), or if the rank sees an instance of a GPU (because CUDA shows a process at most one instance).
struct GpuView {
  /// The value for CUDA_VISIBLE_DEVICES, or for ROCR_VISIBLE_DEVICES with AMD GPUs. No value means that the variable
  /// stays unchanged.
  std::optional<std::string> visible_devices;
  int index = -1;         ///< index of the rank's GPU in its view; -1: no GPU
  bool is_alone = false;  ///< the program gets LOCAL_RANK 0 and LOCAL_WORLD_SIZE 1
  bool is_amd = false;

  /// The name of the rank's device: "cuda:0", "hip:0" for an AMD GPU, or "cpu" without a GPU.
  [[nodiscard]] std::string device() const {
    return index < 0 ? "cpu" : (is_amd ? "hip:" : "cuda:") + std::to_string(index);
  }
};

/// `gpus`: the GPUs granted to the rank; `binding` picks one. `intra_rank`: position among the node's ranks.
[[nodiscard]] GpuView view_gpus(const std::vector<VisibleGpu>& gpus, const Binding& binding, int intra_rank,
                                bool one_visible);

}  // namespace mn::launcher
