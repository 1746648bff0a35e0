#include "place/slurm.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <numeric>

#include <mn/core/error.hpp>
#include <mn/core/host_list.hpp>

namespace mn::launcher {
namespace {

constexpr int kMostTasks = 10'000'000;

[[noreturn]] void malformed(std::string_view counts) {
  throw UsageError("Slurm's task counts \"" + std::string(counts) + "\" are malformed: expected the form 2(x3),1");
}

int positive(std::string_view digits, std::string_view counts) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 1 || value > kMostTasks) {
    malformed(counts);
  }
  return value;
}

/// Ranks in turn to the nodes that still have room, `stride` at a time (cyclic: 1).
std::vector<int> deal(int stride, std::vector<int> room) {
  std::vector<int> nodes;
  const int size = std::accumulate(room.begin(), room.end(), 0);
  while (static_cast<int>(nodes.size()) < size) {
    for (std::size_t n = 0; n < room.size(); ++n) {
      const int taken = std::min(stride, room[n]);
      nodes.insert(nodes.end(), static_cast<std::size_t>(taken), static_cast<int>(n));
      room[n] -= taken;
    }
  }
  return nodes;
}

std::vector<int> number_list(std::string_view list) {
  std::vector<int> numbers;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    int value = -1;
    std::from_chars(item.data(), item.data() + item.size(), value);
    numbers.push_back(value);
    list.remove_prefix(std::min(list.size(), item.size() + 1));
  }
  return numbers;
}

/// srun -m arbitrary: line i of SLURM_HOSTFILE names the host of rank i.
std::optional<std::vector<int>> from_host_file(const Variables& variables, const std::vector<std::string>& hosts,
                                               int size) {
  const auto path = variables.get("SLURM_HOSTFILE");
  if (!path) return std::nullopt;
  std::ifstream file(*path);
  std::vector<int> nodes;
  for (std::string line; static_cast<int>(nodes.size()) < size && std::getline(file, line);) {
    for (const auto& name : expand_host_list(line)) {
      const auto found = std::find(hosts.begin(), hosts.end(), name);
      if (found == hosts.end()) return std::nullopt;
      nodes.push_back(static_cast<int>(found - hosts.begin()));
    }
  }
  if (static_cast<int>(nodes.size()) != size) return std::nullopt;
  return nodes;
}

/// Whether these nodes put this process, and the others of its node, where Slurm says they are.
bool agrees(const std::vector<int>& nodes, const Variables& variables) {
  const int rank = variables.number("SLURM_PROCID").value_or(-1);
  const int node = variables.number("SLURM_NODEID").value_or(-1);
  if (rank < 0 || rank >= static_cast<int>(nodes.size()) || nodes[static_cast<std::size_t>(rank)] != node) return false;
  std::vector<int> here;
  for (std::size_t r = 0; r < nodes.size(); ++r) {
    if (nodes[r] == node) here.push_back(static_cast<int>(r));
  }
  const auto tasks = variables.get("SLURM_GTIDS");
  return !tasks || number_list(*tasks) == here;
}

}  // namespace

std::vector<std::string> hosts_of_list(const std::string& list) {
  try {
    return expand_host_list(list);
  } catch (const ArgumentError& error) {
    throw UsageError(std::string("Slurm's list of nodes is malformed: ") + error.what());
  }
}

std::vector<int> expand_task_counts(std::string_view counts) {
  std::vector<int> tasks;
  std::int64_t total = 0;
  std::string_view rest = counts;
  while (true) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t open = item.find("(x");
    const bool repeated = open != std::string_view::npos && item.back() == ')';
    const int value = positive(item.substr(0, repeated ? open : item.size()), counts);
    const int times = repeated ? positive(item.substr(open + 2, item.size() - open - 3), counts) : 1;
    total += std::int64_t{value} * times;
    if (total > kMostTasks) malformed(counts);
    tasks.insert(tasks.end(), static_cast<std::size_t>(times), value);
    if (item.size() == rest.size()) return tasks;
    rest.remove_prefix(item.size() + 1);
  }
}

std::optional<std::vector<int>> distribute(const std::string& distribution, int plane_size,
                                           const std::vector<int>& tasks) {
  const std::string kind = distribution.substr(0, distribution.find_first_of(":=,"));
  if (kind == "block") return deal(kMostTasks, tasks);
  if (kind == "cyclic") return deal(1, tasks);
  if (kind == "plane" && plane_size > 0) return deal(plane_size, tasks);
  return std::nullopt;
}

std::optional<Layout> slurm_layout(const Variables& variables) {
  const auto counts = variables.get("SLURM_STEP_TASKS_PER_NODE");
  const auto list = variables.get("SLURM_STEP_NODELIST");
  if (!counts || !list) return std::nullopt;
  const auto tasks = expand_task_counts(*counts);
  const auto hosts = hosts_of_list(*list);
  const int size = std::accumulate(tasks.begin(), tasks.end(), 0);
  if (hosts.size() != tasks.size()) return std::nullopt;

  const auto distribution = variables.get("SLURM_DISTRIBUTION");
  const int plane = variables.number("SLURM_DIST_PLANESIZE").value_or(0);
  std::vector<std::optional<std::vector<int>>> candidates;
  if (distribution) candidates.push_back(distribute(*distribution, plane, tasks));
  candidates.push_back(from_host_file(variables, hosts, size));
  // Without the option, slurm.conf decides: block unless it says cyclic.
  candidates.push_back(distribute("block", 0, tasks));
  candidates.push_back(distribute("cyclic", 0, tasks));
  for (const auto& nodes : candidates) {
    if (!nodes || !agrees(*nodes, variables)) continue;
    std::vector<std::string> names;
    for (const int node : *nodes) names.push_back(hosts[static_cast<std::size_t>(node)]);
    return make_layout(*nodes, names);
  }
  return std::nullopt;
}

}  // namespace mn::launcher
