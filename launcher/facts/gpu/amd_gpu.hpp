/// AMD GPUs as the kernel's driver amdgpu describes them in sysfs. No library is loaded.
///
/// A GPU's name for ROCR_VISIBLE_DEVICES is GPU- and its unique id; its number, where it has none or shares it. Numbers
/// count by bus id. Partitions of a GPU (CPX) are not told apart.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "facts/gpu/nvidia_gpu.hpp"

namespace mn::launcher {

/// Below `root`/sys and `root`/dev; no value where there is none. GPUs that this process may not open are left out.
[[nodiscard]] std::optional<GpuDriver> read_amd_gpus(const std::filesystem::path& root);

/// The GPUs that ROCR_VISIBLE_DEVICES grants, and of these those of HIP_VISIBLE_DEVICES; no value: unset.
[[nodiscard]] std::vector<VisibleGpu> visible_amd_gpus(const std::vector<Gpu>& gpus,
                                                       const std::optional<std::string>& by_rocr,
                                                       const std::optional<std::string>& by_hip);

}  // namespace mn::launcher
