/// The least figures of healthy hardware, by GPU model, and the other thresholds of --doctor.
///
/// Source: the limits of Azure's node health checks for ND H100 v5, ND H200 v5 and NDm A100 v4 machines, 2025.
#pragma once

#include <string_view>

namespace mn::selftest {

struct GpuFigures {
  std::string_view name;  ///< NVML's name of the GPU; PCIe, NVL and Grace Hopper cards have other links and names
  double host_gpu_gb_s;   ///< copies from page-locked memory to the GPU
  double allreduce_gb_s;  ///< bus bandwidth of NCCL's allreduce over the eight GPUs of a node
  double fabric_gbit_s;   ///< rate of the network card that belongs to a GPU
};

inline constexpr GpuFigures kGpuFigures[] = {
    {"NVIDIA H200", 48, 431, 360},
    {"NVIDIA H100 80GB HBM3", 48, 460, 380},
    {"NVIDIA A100-SXM4-80GB", 24, 228, 185},
};

/// The part of a network card's rate that MPI reaches with one message at a time between host memories.
inline constexpr double kOfFabricByMpi = 0.8;
/// A pair of nodes is slow below this fraction of the usual bandwidth, which a quarter of the pairs exceeds.
inline constexpr double kSlowPart = 0.5;
/// --against reports a figure as worse if it is below this fraction of the figure in the earlier report.
inline constexpr double kChangedPart = 0.8;

/// Null if the table does not have the GPU model `gpu`.
[[nodiscard]] constexpr const GpuFigures* figures_of(std::string_view gpu) {
  for (const auto& figures : kGpuFigures) {
    if (gpu == figures.name) return &figures;
  }
  return nullptr;
}

}  // namespace mn::selftest
