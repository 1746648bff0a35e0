/// A process's view of the GPUs, so that torch.cuda.set_device(LOCAL_RANK) selects the rank's own GPU.
///
/// 1. If the ranks of a node see the same GPUs, each rank sees its own GPU at the index LOCAL_RANK.
/// 2. A rank that sees no GPU of another rank is alone: its own GPU comes first and LOCAL_RANK is 0, as with one rank
///    on the node. Also alone are ranks with --gpu-visibility one, ranks of a node on which ranks share GPUs (they have
///    no index each), and ranks with an instance of a GPU (CUDA shows a process one instance at most).
/// 3. A CUDA_VISIBLE_DEVICES that is right stays unchanged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bind/binding.hpp"

namespace mn::launcher {

struct GpuView {
  std::optional<std::string>
      visible_devices;    ///< value of CUDA_VISIBLE_DEVICES, for AMD of ROCR_VISIBLE_DEVICES; no value: unchanged
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
