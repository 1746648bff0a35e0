/// What a rank's process sees of its node's GPUs, so that torch.cuda.set_device(LOCAL_RANK) selects the rank's own.
///
/// 1. Where the ranks of a node see the same GPUs, each sees its own at the index LOCAL_RANK.
/// 2. A rank that sees no other rank's GPU is alone: its own comes first and LOCAL_RANK is 0, as under a launcher of
///    one rank a node. So is every rank of --gpu-visibility one, every rank of a node on which ranks share GPUs, for
///    which not each has an index of its own, and every rank that is given an instance of a GPU: CUDA shows a process
///    one instance at most.
/// 3. CUDA_VISIBLE_DEVICES stays as it is wherever that is right already.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bind/binding.hpp"

namespace mn::launcher {

struct GpuView {
  std::optional<std::string> visible_devices;  ///< for CUDA_, or of AMD's ROCR_VISIBLE_DEVICES; no value: leave it
  int index = -1;                              ///< index of the rank's GPU among those that it sees then; -1: no GPU
  bool is_alone = false;                       ///< LOCAL_RANK is 0 of 1
  bool is_amd = false;

  /// "cuda:0"; of AMD's "hip:0"; "cpu" without any.
  [[nodiscard]] std::string device() const {
    return index < 0 ? "cpu" : (is_amd ? "hip:" : "cuda:") + std::to_string(index);
  }
};

/// `gpus`: those that the rank was granted, of which `binding` gives it one. `intra_rank`: among its node's ranks.
[[nodiscard]] GpuView view_gpus(const std::vector<VisibleGpu>& gpus, const Binding& binding, int intra_rank,
                                bool one_visible);

}  // namespace mn::launcher
