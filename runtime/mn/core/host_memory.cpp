#include <mn/core/host_memory.hpp>

#include <algorithm>
#include <limits>

#include <mn/core/cpus.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/small_files.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The number in a file; kUnlimited if the file is missing or holds "max".
std::int64_t limit_in(const fs::path& path) { return leading_number(first_line(path)).value_or(kUnlimited); }

std::int64_t memory_of_machine(const fs::path& root) {
  const auto kib = leading_number(value_of_key(root / "proc/meminfo", "MemTotal"));
  return kib ? *kib << 10 : kUnlimited;
}

}  // namespace

std::int64_t memory_limit(const fs::path& root) {
  std::int64_t least = memory_of_machine(root);
  for (const fs::path& cgroup : cgroups("memory", root)) {
    least = std::min({least, limit_in(cgroup / "memory.max"), limit_in(cgroup / "memory.limit_in_bytes")});
  }
  return least;
}

std::int64_t memory_of_rank() { return memory_limit() / ranks_of_node(environment); }

}  // namespace mn
