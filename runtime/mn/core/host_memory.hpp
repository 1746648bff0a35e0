/// Tells how much memory this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace mn {

/// The machine's memory in bytes, or the limit of this process's cgroup if the limit is lower. `root` is the folder
/// that contains proc and sys.
[[nodiscard]] std::int64_t memory_limit(const std::filesystem::path& root = "/");

/// This process's share of memory_limit(). All ranks of the node have equal shares.
[[nodiscard]] std::int64_t memory_of_rank();

}  // namespace mn
