/// Finds AMD GPUs as the kernel's driver amdgpu describes them in sysfs. No library is loaded. ROCR_VISIBLE_DEVICES
/// accepts a GPU's name, which is "GPU-" followed by the GPU's unique id. For a GPU without a unique id of its own, the
/// GPU's position in the order of bus ids is used instead. The partitions of a GPU in CPX mode are not told apart.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "facts/gpu/nvidia_gpu.hpp"

namespace mn::launcher {

/// Finds the AMD GPUs that this process may open, from the folders sys and dev below `root`. No value if this process
/// may open no AMD GPU.
[[nodiscard]] std::optional<GpuDriver> read_amd_gpus(const std::filesystem::path& root);

/// The GPUs that a process sees. `by_rocr` is the value of ROCR_VISIBLE_DEVICES, which chooses among `gpus`. `by_hip`
/// is the value of HIP_VISIBLE_DEVICES, which chooses among the GPUs that ROCR_VISIBLE_DEVICES leaves. No value means
/// that the variable is unset.
[[nodiscard]] std::vector<VisibleGpu> visible_amd_gpus(const std::vector<Gpu>& gpus,
                                                       const std::optional<std::string>& by_rocr,
                                                       const std::optional<std::string>& by_hip);

}  // namespace mn::launcher
