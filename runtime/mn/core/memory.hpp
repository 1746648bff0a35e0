/// How much memory there is for this process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace mn {

/// Bytes that the processes of this one's cgroup may take together: the machine's, or less where a cgroup says so
/// (memory.max, or memory.limit_in_bytes of the first version), as containers and Slurm set it. `root` holds proc and
/// sys.
[[nodiscard]] std::int64_t memory_limit(const std::filesystem::path& root = "/");

/// This process's part of it: one of ranks_of_node().
[[nodiscard]] std::int64_t memory_of_rank();

}  // namespace mn
