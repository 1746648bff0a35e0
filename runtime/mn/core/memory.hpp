/// Memory available to this process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace mn {

/// Bytes that this process may use: the machine's memory, or a cgroup's lower limit. `root` holds proc and sys.
[[nodiscard]] std::int64_t memory_limit(const std::filesystem::path& root = "/");

/// This process's share of memory_limit(): all ranks_of_node() have equal shares.
[[nodiscard]] std::int64_t memory_of_rank();

}  // namespace mn
