/// Memory available to this process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace mn {

/// The bytes of memory that this process may use: the machine's memory, or a cgroup's limit if that is lower. `root` is
/// the folder that contains proc and sys.
[[nodiscard]] std::int64_t memory_limit(const std::filesystem::path& root = "/");

/// This process's share of memory_limit(). All ranks of the node have equal shares.
[[nodiscard]] std::int64_t memory_of_rank();

}  // namespace mn
