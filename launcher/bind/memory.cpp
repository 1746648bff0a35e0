// Source: set_mempolicy(2).
#include "bind/memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>

#include <sys/syscall.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

constexpr int kPolicyBind = 2;  // MPOL_BIND of linux/mempolicy.h

}  // namespace

std::vector<int> numa_nodes_of(const CpuSet& cpus, const std::filesystem::path& root) {
  constexpr std::string_view kPrefix = "node";
  std::vector<int> nodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root / "sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || name.find_first_of("0123456789") != kPrefix.size()) continue;
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    std::getline(file, list);
    if (!intersection(parse_cpus(list), cpus).empty()) nodes.push_back(std::atoi(name.c_str() + kPrefix.size()));
  }
  std::ranges::sort(nodes);
  return nodes;
}

void bind_memory_of_this_thread(const std::vector<int>& nodes) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  if (nodes.empty()) return;  // a kernel without NUMA has near memory only
  const auto most = static_cast<std::size_t>(std::ranges::max(nodes));
  std::vector<unsigned long> mask(most / kBits + 1);
  for (const int node : nodes)
    mask[static_cast<std::size_t>(node) / kBits] |= 1UL << (static_cast<std::size_t>(node) % kBits);
  // The kernel reads one bit less than its argument says.
  if (syscall(SYS_set_mempolicy, kPolicyBind, mask.data(), mask.size() * kBits + 1) == 0) return;
  const int reason = errno;
  const std::string list = join(nodes, ",");
  throw Error(with_errno("--mem-bind local: cannot bind memory to the NUMA nodes " + list, reason) +
              "; leave the option out, or allow set_mempolicy (docker --cap-add SYS_NICE)");
}

}  // namespace mn::launcher
