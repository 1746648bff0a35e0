/// Divides the GPUs, cores and network cards of a node among its ranks, and shows each rank its GPU.
///
/// 1. A pure function: equal arguments give equal bindings, whoever computes them.
/// 2. GPUs: a maximum matching between ranks and visible GPUs. No GPU is used twice while another is free.
/// 3. Cores: ranks with equal masks divide them equally, near their GPUs first. A mask of a single rank stays.
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
  std::string uuid;    ///< GPU-…, or MIG-… of an instance
  std::string bus_id;  ///< spelled by normal_bus_id()
  bool is_amd = false;
  friend bool operator==(const VisibleGpu&, const VisibleGpu&) = default;
};
/// As [uuid, bus id], short because every rank reports a list.
void to_json(nlohmann::json& json, const VisibleGpu& gpu);
void from_json(const nlohmann::json& json, VisibleGpu& gpu);

/// Resources that the launcher gave a rank.
struct RankResources {
  CpuSet mask;                   ///< CPUs that the rank may run on
  std::vector<VisibleGpu> gpus;  ///< in CUDA's order for the rank
  // Bindings are computed from both.
  MN_FIELDS(mask, gpus);
  MN_NEEDED_FIELDS(mask, gpus);
  friend bool operator==(const RankResources&, const RankResources&) = default;
};

struct BindingOptions {
  bool bind_cores = true;
  bool oversubscribe_gpu = false;
  /// CPUs of the node's first rank, second, …; later ranks are bound as without a map.
  std::vector<CpuSet> cpu_map = {};
};

struct Binding {
  int gpu = -1;                  ///< index into the rank's visible GPUs; -1: none
  CpuSet cpus;                   ///< CPUs to run on; the whole mask if it is not divided
  int cores = 1;                 ///< this rank's share of cores among `cpus`
  std::string nic;               ///< empty: none
  bool shares_gpu = false;       ///< another rank of the node uses this GPU
  bool gpus_are_shared = false;  ///< ranks of the node share GPUs
  bool sees_alone = false;       ///< no other rank of the node can see any of its GPUs
  // Without these fields a rank would start unbound, on GPUs and cores of its neighbors.
  MN_FIELDS(gpu, cpus, cores, nic, shares_gpu, gpus_are_shared, sees_alone);
  MN_NEEDED_FIELDS(gpu, cpus, cores);
};

/// Element i is for the node's i-th rank. With more ranks than GPUs and no oversubscription, gpu is -1 for some ranks.
[[nodiscard]] std::vector<Binding> bind_ranks(const Machine& machine, const std::vector<RankResources>& ranks,
                                              const BindingOptions& options);

/// A process's view of the GPUs, so that torch.cuda.set_device(LOCAL_RANK) selects the rank's own GPU. If the ranks of
/// a node see the same GPUs, each rank sees its own GPU at the index LOCAL_RANK. A rank that sees no GPU of another
/// rank is alone: its own GPU comes first and LOCAL_RANK is 0, as with one rank on the node. Also alone are ranks with
/// --gpu-visibility one, ranks of a node on which ranks share GPUs (they have no index each), and ranks with an
/// instance of a GPU (CUDA shows a process one instance at most).
struct GpuView {
  /// Value of CUDA_VISIBLE_DEVICES, for AMD of ROCR_VISIBLE_DEVICES; no value: it is right, and stays.
  std::optional<std::string> visible_devices;
  int index = -1;         ///< index of the rank's GPU in its view; -1: no GPU
  bool is_alone = false;  ///< LOCAL_RANK is 0 of 1
  bool is_amd = false;

  /// "cuda:0"; "hip:0" for AMD; "cpu" without a GPU.
  [[nodiscard]] std::string device() const {
    return index < 0 ? "cpu" : (is_amd ? "hip:" : "cuda:") + std::to_string(index);
  }
};

/// `gpus`: the GPUs granted to the rank; `binding` picks one. `intra_rank`: position among the node's ranks.
[[nodiscard]] GpuView view_gpus(const std::vector<VisibleGpu>& gpus, const Binding& binding, int intra_rank,
                                bool one_visible);

}  // namespace mn::launcher
