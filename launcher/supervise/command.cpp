#include "supervise/command.hpp"

#include <algorithm>
#include <fstream>
#include <span>
#include <sstream>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/host_list.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::size_t divided(std::size_t ranks, std::size_t hosts) {
  if (hosts > 0 && ranks % hosts == 0) return ranks / hosts;
  throw UsageError("supervise: " + std::to_string(ranks) + " ranks on " + std::to_string(hosts) +
                   " hosts are not the same number on each: give srun --ntasks-per-node, or mpiexec -host A:2,B:2");
}

/// The hosts in the value of srun's option: a host list, or, if the value has a slash, a file of host lists.
Words hosts_of(const std::string& option, const std::string& value) try {
  if (value.find('/') == std::string::npos) return expand_host_list(value);
  std::ifstream file(value);
  Words hosts;
  for (std::string line; std::getline(file, line);) {
    std::istringstream lists(line.substr(0, line.find('#')));
    for (std::string list; lists >> list;) {
      for (auto& host : expand_host_list(list)) hosts.push_back(std::move(host));
    }
  }
  if (hosts.empty()) throw ArgumentError("no hosts in the file " + value);
  return hosts;
} catch (const ArgumentError& error) {
  throw UsageError("supervise: srun's " + option + ": " + error.what());
}

bool has(const Words& words, const std::string& word) { return std::ranges::find(words, word) != words.end(); }

std::size_t position_of_mnlaunch(const Words& words) {
  const auto found = std::ranges::find(words, "mnlaunch", base_name);
  return static_cast<std::size_t>(found - words.begin());
}

}  // namespace

std::size_t parse_count(const std::string& what, const std::string& text, std::size_t least) {
  const auto value = parse_number<std::size_t>(text);
  if (value && *value >= least) return *value;
  throw UsageError("supervise: " + what + " is \"" + text + "\", not a " +
                   (least > 0 ? "number of at least " + std::to_string(least) : "whole number"));
}

StepCommand::StepCommand(Words words, const Lookup& lookup) : words_(std::move(words)) {
  const std::string launcher = words_.empty() ? "" : base_name(words_.front());
  is_srun_ = launcher == "srun";
  const bool is_mpiexec = launcher == "mpiexec" || launcher == "mpirun" || launcher == "orterun";
  constexpr const char* kUsage = "mnlaunch supervise [options] -- srun|mpiexec ... mnlaunch PROGRAM [ARG...]";
  if (!is_srun_ && !is_mpiexec) {
    throw UsageError(
        "supervise: " + (launcher.empty() ? "there is no command" : "the command begins with " + launcher) +
        ", where srun or mpiexec must stand: " + kUsage);
  }
  if (position_of_mnlaunch(words_) >= words_.size()) {
    throw UsageError("supervise: the command has no mnlaunch: " + std::string(kUsage));
  }
  is_srun_ ? read_srun(lookup) : read_mpiexec();
  if (wanted_hosts_.value_or(0) <= hosts_.size()) return;
  throw UsageError("supervise: " + launcher + " asks for " + std::to_string(*wanted_hosts_) +
                   " hosts, more than there are: " + join(hosts_, ","));
}

/// Removes an option (-N 3, -N3, --nodes 3 or --nodes=3), and returns its last value, or no value if the command lacks
/// it. `names` has all spellings.
std::optional<std::string> StepCommand::take(const Words& names) {
  std::optional<std::string> value;
  for (std::size_t i = 1; i < position_of_mnlaunch(words_);) {
    const std::string word = words_[i];
    const auto at = words_.begin() + static_cast<std::ptrdiff_t>(i);
    const auto name = std::ranges::find_if(names, [&](const std::string& each) {
      return word == each || word.starts_with(each + "=") ||
             (each.size() == 2 && word.size() > 2 && word[1] != '-' && word.starts_with(each) && is_srun_);
    });
    if (name == names.end()) {
      ++i;
    } else if (word == *name) {
      value = i + 1 < words_.size() ? words_[i + 1] : "";
      words_.erase(at, at + 2);
    } else {
      value = word.substr(name->size() + (word[name->size()] == '=' ? 1 : 0));
      words_.erase(at);
    }
  }
  return value;
}

void StepCommand::read_srun(const Lookup& lookup) {
  const auto list = lookup("SLURM_JOB_NODELIST");
  if (!list)
    throw UsageError("supervise: srun must run in a batch job or an allocation, whose hosts it can choose from");
  hosts_ = expand_host_list(*list);
  const std::size_t allocated = hosts_.size();
  if (const auto nodes = take({"-N", "--nodes"})) wanted_hosts_ = parse_count("the number of nodes", *nodes, 1);
  choose_hosts(*list);
  const auto ranks = take({"-n", "--ntasks"});
  auto per_node = take({"--ntasks-per-node"});
  // As with srun, an option overrides the allocation's variable.
  if (!per_node && !ranks) per_node = lookup("SLURM_NTASKS_PER_NODE");
  const std::size_t nodes = wanted_hosts_.value_or(hosts_.size());
  if (per_node) {
    ranks_per_host_ = parse_count("--ntasks-per-node", *per_node, 1);
  } else if (ranks) {
    ranks_per_host_ = divided(parse_count("the number of tasks", *ranks, 1), nodes);
  } else if (const auto all = lookup("SLURM_NTASKS")) {
    ranks_per_host_ = divided(parse_count("SLURM_NTASKS", *all, 1), allocated);
  }
}

/// Chooses the hosts for the command. Hosts of --nodelist come first; others follow only if -N asks for more. Hosts of
/// --exclude are left out.
void StepCommand::choose_hosts(const std::string& allocation) {
  const auto file = take({"-F", "--nodefile"});  // --nodelist with a file
  auto chosen = take({"-w", "--nodelist"});
  if (!chosen && file) chosen = file->find('/') == std::string::npos ? "./" + *file : *file;
  if (const auto list = take({"-x", "--exclude"})) {
    const Words excluded = hosts_of("--exclude", *list);
    std::erase_if(hosts_, [&](const std::string& host) { return has(excluded, host); });
    if (hosts_.empty()) throw UsageError("supervise: srun's --exclude leaves no host of " + allocation);
  }
  if (!chosen) return;
  Words first;
  for (const auto& host : hosts_of("--nodelist", *chosen)) {
    if (!has(hosts_, host)) {
      throw UsageError("supervise: srun's --nodelist names " + host + ", which " +
                       (has(expand_host_list(allocation), host) ? "--exclude excludes" : "is not in " + allocation));
    }
    if (!has(first, host)) first.push_back(host);
  }
  for (const auto& host : hosts_) {
    if (wanted_hosts_.value_or(0) > first.size() && !has(first, host)) first.push_back(host);
  }
  hosts_ = std::move(first);
}

void StepCommand::read_mpiexec() {
  const auto list = take({"-host", "--host", "-H"});
  const auto ranks = take({"-n", "-np", "--n", "--np", "-c"});
  if (!list) throw UsageError("supervise: mpiexec needs -host HOST:RANKS,…, from which it can choose");
  std::size_t most = 0;
  for (const auto item : split(*list, ',')) {
    const auto host_and_ranks = split(item, ':');
    hosts_.emplace_back(host_and_ranks[0]);
    if (host_and_ranks.size() > 1)
      most = std::max(most, parse_count("the ranks of a host", std::string(host_and_ranks[1]), 1));
  }
  ranks_per_host_ = most > 0 ? most : ranks ? divided(parse_count("the number of ranks", *ranks, 1), hosts_.size()) : 1;
  if (most == 0 || !ranks) return;
  const std::size_t all = parse_count("the number of ranks", *ranks, 1);
  if (all % most != 0) {
    throw UsageError("supervise: " + std::to_string(all) + " ranks do not fill hosts of " + std::to_string(most) +
                     ": give mpiexec -n a multiple of it, or -host other numbers");
  }
  wanted_hosts_ = all / most;
}

bool StepCommand::resumes() const {
  const std::span program = std::span(words_).subspan(position_of_mnlaunch(words_) + 1);
  const bool is_job = std::ranges::any_of(program, [](const std::string& word) {
    return word.starts_with("jobs/") || word.find("/jobs/") != std::string::npos;
  });
  return !is_job || std::ranges::any_of(program, [](const std::string& word) {
    return word.starts_with("--resume") || word.starts_with("--config");  // a configuration file may set resume
  });
}

Words StepCommand::on(const Words& hosts, const std::string& name, bool overlap) const {
  const std::string ranks = std::to_string(hosts.size() * ranks_per_host_);
  Words command = {words_.front()};
  if (is_srun_) {
    command.insert(command.end(),
                   {"--nodes=" + std::to_string(hosts.size()), "--nodelist=" + join(hosts, ","), "--ntasks=" + ranks,
                    "--ntasks-per-node=" + std::to_string(ranks_per_host_), "--job-name=" + name, "--no-kill"});
    if (overlap) command.emplace_back("--overlap");
  } else {
    Words items;
    for (const auto& host : hosts) items.push_back(host + ":" + std::to_string(ranks_per_host_));
    // ssh passes no variables, so -x passes MN_STATUS_FILE to a rank 0 on a remote host.
    command.insert(command.end(), {"-host", join(items, ","), "-n", ranks, "-x", "MN_STATUS_FILE"});
  }
  command.insert(command.end(), words_.begin() + 1, words_.end());
  return command;
}

}  // namespace mn::launcher
