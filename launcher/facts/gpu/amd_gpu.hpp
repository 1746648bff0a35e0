/// Finds AMD GPUs as the driver amdgpu describes them in sysfs. ROCR_VISIBLE_DEVICES accepts "GPU-" and a GPU's unique
/// id, or else the index in the order of bus ids. The partitions of a GPU in CPX mode are not told apart.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "facts/gpu/nvidia_gpu.hpp"

namespace mn::launcher {

/// The AMD GPUs that this process may open, below `root`. No value if there is none.
[[nodiscard]] std::optional<GpuDriver> read_amd_gpus(const std::filesystem::path& root);

/// The GPUs that a process sees: first ROCR_VISIBLE_DEVICES (`by_rocr`) chooses among `gpus`, then HIP_VISIBLE_DEVICES
/// (`by_hip`) among those. No value: the variable is unset.
[[nodiscard]] std::vector<VisibleGpu> visible_amd_gpus(const std::vector<Gpu>& gpus,
                                                       const std::optional<std::string>& by_rocr,
                                                       const std::optional<std::string>& by_hip);

}  // namespace mn::launcher
