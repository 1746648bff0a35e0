#include <mn/core/host_memory.hpp>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <mn/core/cpus.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/launcher_variables.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The number in a file; kUnlimited if the file is missing or holds "max".
std::int64_t limit_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t bytes = 0;
  return file >> bytes ? bytes : kUnlimited;
}

std::int64_t memory_of_machine(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == "MemTotal:" && file >> kib) return kib << 10;
  }
  return kUnlimited;
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
