/// Finds AMD GPUs, as the kernel's driver amdgpu describes them in sysfs. No library is loaded. ROCR_VISIBLE_DEVICES
/// takes a GPU's name, "GPU-" followed by the GPU's unique id. If a GPU has no unique id, the GPU's position in the
/// order of bus ids takes the place of the name. Partitions of a GPU (CPX) are not distinguished.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "facts/gpu/nvidia_gpu.hpp"

namespace mn::launcher {

/// Finds the AMD GPUs that this process may open. Reads the folders sys and dev below `root`. No value if there are no
/// such GPUs.
[[nodiscard]] std::optional<GpuDriver> read_amd_gpus(const std::filesystem::path& root);

/// The GPUs that ROCR_VISIBLE_DEVICES (`by_rocr`) grants, filtered by HIP_VISIBLE_DEVICES (`by_hip`). No value means
/// that the variable is unset.
[[nodiscard]] std::vector<VisibleGpu> visible_amd_gpus(const std::vector<Gpu>& gpus,
                                                       const std::optional<std::string>& by_rocr,
                                                       const std::optional<std::string>& by_hip);

}  // namespace mn::launcher
