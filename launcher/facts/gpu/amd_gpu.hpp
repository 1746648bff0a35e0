/// AMD GPUs, as the kernel's driver amdgpu describes them in sysfs. No library is loaded. A GPU's name for
/// ROCR_VISIBLE_DEVICES is GPU- and its unique id; without a unique id it is the GPU's number, counted by bus id.
/// Partitions of a GPU (CPX) are not distinguished.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "facts/gpu/nvidia_gpu.hpp"

namespace mn::launcher {

/// Reads `root`/sys and `root`/dev; no value without AMD GPUs. GPUs closed to this process are left out.
[[nodiscard]] std::optional<GpuDriver> read_amd_gpus(const std::filesystem::path& root);

/// The GPUs that ROCR_VISIBLE_DEVICES (`by_rocr`) grants, filtered by HIP_VISIBLE_DEVICES (`by_hip`). A variable
/// without a value is unset.
[[nodiscard]] std::vector<VisibleGpu> visible_amd_gpus(const std::vector<Gpu>& gpus,
                                                       const std::optional<std::string>& by_rocr,
                                                       const std::optional<std::string>& by_hip);

}  // namespace mn::launcher
