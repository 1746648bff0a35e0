/// What the kernel logged about this node's GPUs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mn::launcher {

/// "GPU 0000:3b:00 XID 79" for each hardware error of the last day, each once. Empty without NVIDIA's driver, and where
/// the log is for root alone. `root`: proc and dev are read below it.
[[nodiscard]] std::vector<std::string> recent_xids(const std::filesystem::path& root);

/// Whether recent_xids() can know; no value without NVIDIA's driver.
[[nodiscard]] std::optional<bool> can_read_kernel_log(const std::filesystem::path& root);

}  // namespace mn::launcher
