/// What hardware of a kind delivers when it is well: --doctor fails what stays below. The one place for such figures.
///
/// Source: the limits of Azure's node health checks for ND H100 v5, ND H200 v5 and NDm A100 v4 machines, 2025.
#pragma once

#include <string_view>

namespace mn::selftest {

struct GpuFigures {
  std::string_view name;  ///< part of NVML's name for the GPU
  double host_gpu_gb_s;   ///< copies from page-locked memory to the GPU
  double allreduce_gb_s;  ///< bus bandwidth of NCCL's allreduce over the eight GPUs of a node
  double fabric_gbit_s;   ///< of the network card that belongs to a GPU
};

inline constexpr GpuFigures kGpuFigures[] = {
    {"H200", 48, 431, 360},
    {"H100", 48, 460, 380},
    {"A100", 24, 228, 185},
};

/// Of a network card's rate, what one MPI message at a time between host memories reaches.
inline constexpr double kOfFabricByMpi = 0.8;
/// A pair of nodes is slow below this part of the bandwidth that a quarter of the pairs exceeds.
inline constexpr double kSlowPart = 0.5;
/// What has become slower than this part of an earlier figure (--against) has changed.
inline constexpr double kChangedPart = 0.8;

/// Null for a GPU that the table lacks.
[[nodiscard]] constexpr const GpuFigures* figures_of(std::string_view gpu) {
  for (const auto& figures : kGpuFigures) {
    if (gpu.find(figures.name) != std::string_view::npos) return &figures;
  }
  return nullptr;
}

}  // namespace mn::selftest
