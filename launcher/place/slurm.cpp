#include "place/slurm.hpp"

#include <charconv>
#include <fstream>

#include <mn/core/error.hpp>
#include <mn/core/host_list.hpp>

namespace mn::launcher {

std::string step_name(const Variables& variables) {
  return variables.get("SLURM_JOB_ID").value_or("?") + "." + variables.get("SLURM_STEP_ID").value_or("?");
}

int step_size(const Variables& variables) {
  return variables.number("SLURM_STEP_NUM_TASKS").value_or(variables.number("SLURM_NTASKS").value_or(1));
}

std::vector<int> tasks_on_node(const Variables& variables) {
  const auto text = variables.get("SLURM_GTIDS").value_or("");
  std::vector<int> tasks;
  for (const char* begin = text.data(); begin < text.data() + text.size(); ++begin) {
    int task = 0;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), task);
    if (error != std::errc()) return {};
    tasks.push_back(task);
    begin = end;  // at a comma
  }
  return tasks;
}

int nodes_of_step(const Variables& variables) {
  return variables.number("SLURM_STEP_NUM_NODES").value_or(variables.number("SLURM_NNODES").value_or(1));
}

std::string first_host_of_allocation(const Variables& variables) {
  std::string host;
  if (const auto file = variables.get("PBS_NODEFILE")) std::getline(std::ifstream(*file), host);
  if (const auto list = variables.get("SLURM_JOB_NODELIST")) {
    try {
      host = expand_host_list(*list).at(0);
    } catch (const ArgumentError&) {
      host.clear();
    }
  }
  return host;
}

std::vector<std::string> hosts_of_step(const Variables& variables) {
  const auto list = variables.get("SLURM_STEP_NODELIST");
  if (!list) return {};
  std::vector<std::string> hosts;
  try {
    hosts = expand_host_list(*list);
  } catch (const ArgumentError& error) {
    throw UsageError(std::string("Slurm's list of nodes is malformed: ") + error.what());
  }
  return static_cast<int>(hosts.size()) == nodes_of_step(variables) ? hosts : std::vector<std::string>{};
}

}  // namespace mn::launcher
