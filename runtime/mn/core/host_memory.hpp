/// Tells how much memory this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace mn {

/// The number of bytes of memory that this process may use. This is the machine's memory, or the limit of a cgroup if
/// that is lower. `root` is the folder that contains proc and sys.
[[nodiscard]] std::int64_t memory_limit(const std::filesystem::path& root = "/");

/// This process's share of memory_limit(). All ranks of the node have equal shares.
[[nodiscard]] std::int64_t memory_of_rank();

}  // namespace mn
