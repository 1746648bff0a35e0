#include "place/slurm.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string_view>

#include <mn/core/command_output.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/host_list.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

/// The first host with ranks in LSF's host file, which has a line for each slot. Under jsrun, the first line is the
/// launch node.
std::string first_host_of_lsf(const std::string& file, const Variables& variables) {
  std::ifstream lines(file);
  std::string first;
  std::getline(lines, first);
  if (!variables.has("JSM_NAMESPACE_RANK")) return first;
  for (std::string host; std::getline(lines, host);) {
    if (host != first) return host;
  }
  return "";
}

/// The step's nodes in the order of SLURM_NODEID: one component after the other. (SLURM_STEP_NODELIST sorts the nodes
/// of all components together.)
std::vector<std::string> nodes_by_component(const Variables& variables) {
  const auto whole = expand_host_list(variables.get("SLURM_STEP_NODELIST").value_or(""));
  const int components = variables.number("SLURM_HET_SIZE").value_or(1);
  if (components < 2) return whole;
  std::vector<std::string> nodes;
  for (int component = 0; component < components; ++component) {
    const std::string number = std::to_string(component);
    auto list = variables.get("SLURM_JOB_NODELIST_HET_GROUP_" + number);
    if (!list) list = variables.get("SLURM_JOB_NODELIST_PACK_GROUP_" + number);  // the name in Slurm 22.05
    const auto more = expand_host_list(list.value_or(""));
    if (more == whole && static_cast<int>(whole.size()) == nodes_of_step(variables))
      return whole;  // the step has one component
    // A step may have only some components (srun --het-group=0,2). The others have nodes outside of the step.
    const auto is_of_step = [&](const std::string& node) { return std::ranges::find(whole, node) != whole.end(); };
    if (std::ranges::all_of(more, is_of_step)) nodes.insert(nodes.end(), more.begin(), more.end());
  }
  return nodes;
}

/// If the node's number is wrong, notes the error in `here`, and finds the right number by the node's name, so that
/// this rank can report the error.
void correct_node(Placement& here, const Variables& variables) {
  const auto told = variables.get("SLURMD_NODENAME");
  const std::string name = told.value_or(host_name());
  const bool has_number = here.inter_rank >= 0;
  const auto node = static_cast<std::size_t>(here.inter_rank);
  const bool can_tell = told && !here.hosts.empty();
  if (has_number && (!can_tell || (node < here.hosts.size() && here.hosts[node] == name))) return;
  if (here.error.empty()) {
    here.error = "SLURM_NODEID is " + std::to_string(here.inter_rank) + ", but SLURM_STEP_NODELIST does not have " +
                 name + " there: they were changed on the way; start mnlaunch directly under srun";
  }
  const auto own = std::ranges::find(here.hosts, name);
  if (own != here.hosts.end() || !has_number) here.inter_rank = static_cast<int>(own - here.hosts.begin());
}

}  // namespace

Placement placement_of_step(const Variables& variables) {
  Placement here;
  here.launcher = Launcher::kSlurm;
  here.job = step_name(variables);
  here.source = "Slurm step " + here.job;
  here.hosts = hosts_of_step(variables);
  here.size = step_size(variables);
  here.intra_rank = number_or_error(here, variables, "SLURM_LOCALID");
  const auto tasks = tasks_on_node(variables);
  const auto local = static_cast<std::size_t>(std::max(here.intra_rank, 0));
  const int rank = number_or_error(here, variables, "SLURM_PROCID");
  // SLURM_PROCID, more often than SLURM_GTIDS, is left over from an earlier step.
  here.rank = here.intra_rank >= 0 && local < tasks.size() ? tasks[local] : rank;
  here.inter_size = nodes_of_step(variables);
  here.inter_rank = number_or_error(here, variables, "SLURM_NODEID");
  correct_node(here, variables);
  // True if all tasks of the step are on this node.
  const bool is_whole = tasks.empty() && here.inter_size == 1;
  here.intra_size = is_whole ? here.size : std::max(static_cast<int>(tasks.size()), 1);
  return here;
}

std::string step_name(const Variables& variables) {
  return variables.get("SLURM_JOB_ID").value_or("?") + "." + variables.get("SLURM_STEP_ID").value_or("?");
}

int step_size(const Variables& variables) {
  return variables.number("SLURM_STEP_NUM_TASKS").value_or(variables.number("SLURM_NTASKS").value_or(1));
}

std::vector<int> tasks_on_node(const Variables& variables) {
  const std::string list = variables.get("SLURM_GTIDS").value_or("");
  std::vector<int> tasks;
  for (const auto item : split(list, ',')) {
    const auto task = parse_rank(std::string(item));
    if (!task) return {};
    tasks.push_back(*task);
  }
  return tasks;
}

int nodes_of_step(const Variables& variables) {
  return variables.number("SLURM_STEP_NUM_NODES").value_or(variables.number("SLURM_NNODES").value_or(1));
}

std::string first_host_of_allocation(const Variables& variables) {
  std::string host;
  if (const auto file = variables.get("PBS_NODEFILE")) std::getline(std::ifstream(*file), host);
  if (const auto file = variables.get("LSB_DJOB_HOSTFILE")) host = first_host_of_lsf(*file, variables);
  if (const auto list = variables.get("SLURM_JOB_NODELIST")) {
    try {
      host = expand_host_list(*list).at(0);
    } catch (const ArgumentError&) {
      host.clear();
    }
  }
  return host;
}

std::string address_by_slurm(const std::string& node) {
  constexpr std::string_view kField = " NodeAddr=";
  const std::string text = command_output({"scontrol", "--oneliner", "show", "node", node}, std::chrono::seconds(5));
  const std::size_t field = text.find(kField);
  if (field == std::string::npos) return "";
  const std::size_t begin = field + kField.size();
  return text.substr(begin, text.find(' ', begin) - begin);
}

std::vector<std::string> hosts_of_step(const Variables& variables) {
  try {
    auto hosts = nodes_by_component(variables);
    return static_cast<int>(hosts.size()) == nodes_of_step(variables) ? hosts : std::vector<std::string>{};
  } catch (const ArgumentError& error) {
    throw UsageError(std::string("Slurm's list of nodes is malformed: ") + error.what());
  }
}

}  // namespace mn::launcher
