/// The GPUs that the CUDA code in a program or library was compiled for.
#pragma once

#include <filesystem>
#include <set>

#include <nlohmann/json_fwd.hpp>

namespace mn::launcher {

/// Compute capabilities, 90 for 9.0.
struct GpuCode {
  std::set<int> binary;  ///< runs on these, and on later minor versions of the same major version
  std::set<int> ptx;     ///< the driver compiles it for these and all later capabilities

  [[nodiscard]] bool empty() const noexcept { return binary.empty() && ptx.empty(); }
  friend bool operator==(const GpuCode&, const GpuCode&) = default;
};

/// Empty if `file` is not an ELF file or has no CUDA code. Reads headers only, of the first 64 containers: a large
/// library has thousands, compiled for the same GPUs.
[[nodiscard]] GpuCode read_gpu_code(const std::filesystem::path& file);

/// Whether a GPU with this capability can run the code.
[[nodiscard]] bool runs_on(const GpuCode& code, int capability);

void to_json(nlohmann::json& json, const GpuCode& code);
void from_json(const nlohmann::json& json, GpuCode& code);

}  // namespace mn::launcher
