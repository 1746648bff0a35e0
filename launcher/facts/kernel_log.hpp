/// Hardware errors of this node's GPUs in the kernel log.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mn::launcher {

/// "GPU 0000:3b:00 XID 79" for each hardware error of the last day, each once. Empty without NVIDIA's driver, and if
/// only root may read the log. proc and dev are read below `root`.
[[nodiscard]] std::vector<std::string> recent_xids(const std::filesystem::path& root);

/// Whether recent_xids() can read the log; no value without NVIDIA's driver.
[[nodiscard]] std::optional<bool> can_read_kernel_log(const std::filesystem::path& root);

}  // namespace mn::launcher
