#include <mn/core/launcher_variables.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

#include <mn/core/text.hpp>

namespace mn {
namespace {

/// Returns the first value that `read` returns for the texts of the launchers' rank variables.
template <typename Read>
auto first_of_launchers(const VariableLookup& lookup, Read read) -> decltype(read(std::string())) {
  const auto try_name = [&](const char* name) {
    const auto text = lookup(name);
    return text ? read(*text) : std::nullopt;
  };
  if (auto value = try_name("PMIX_RANK")) return value;
  for (const auto& names : kLauncherVariables) {
    if (auto value = try_name(names.rank)) return value;
  }
  return try_name("SLURM_PROCID");
}

std::optional<int> number_in(const VariableLookup& lookup, const char* name) {
  const auto text = lookup(name);
  return text ? parse_rank(*text) : std::nullopt;
}

/// The rank and the number of ranks; no value unless both variables are valid.
std::optional<JobRank> rank_and_size(const VariableLookup& lookup, const char* rank_name, const char* size_name) {
  const auto rank = number_in(lookup, rank_name);
  const auto size = number_in(lookup, size_name);
  if (!rank || !size || *rank >= *size) return std::nullopt;
  return JobRank{.rank = *rank, .size = *size};
}

std::optional<JobRank> find_job_rank(const VariableLookup& lookup) {
  if (auto found = rank_and_size(lookup, "MN_RANK", "MN_SIZE")) return found;
  if (auto found = rank_and_size(lookup, "RANK", "WORLD_SIZE")) return found;
  return job_rank_of_launcher(lookup);
}

/// The largest number of tasks per node in Slurm's list, for example "4(x2),3".
int most_tasks(const std::string& list) {
  int most = 1;
  for (const std::string_view nodes : split(list, ',')) {
    most = std::max(most, parse_number<int>(nodes.substr(0, nodes.find('('))).value_or(1));
  }
  return most;
}

std::string name_of_job(const VariableLookup& lookup) {
  for (const auto& names : kLauncherVariables) {
    const auto job = lookup(names.job);
    if (job && lookup(names.rank)) return *job;
  }
  if (!in_slurm_step(lookup)) return "";
  return lookup("SLURM_JOB_ID").value_or("?") + "." + lookup("SLURM_STEP_ID").value_or("?");
}

}  // namespace

std::optional<std::string> rank_text_of_launcher(const VariableLookup& lookup) {
  return first_of_launchers(lookup, [](const std::string& text) { return std::optional(text); });
}

std::optional<int> rank_of_environment(const VariableLookup& lookup) {
  for (const char* name : {"MN_RANK", "RANK"}) {
    if (const auto rank = number_in(lookup, name)) return rank;
  }
  return first_of_launchers(lookup, parse_rank);
}

std::optional<JobRank> job_rank_of_launcher(const VariableLookup& lookup) {
  for (const auto& names : kLauncherVariables) {
    if (auto found = rank_and_size(lookup, names.rank, names.size)) return found;
  }
  if (!in_slurm_step(lookup)) return std::nullopt;
  if (auto found = rank_and_size(lookup, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")) return found;
  return rank_and_size(lookup, "SLURM_PROCID", "SLURM_NTASKS");
}

JobRank job_rank_of_environment(const VariableLookup& lookup) {
  JobRank found = find_job_rank(lookup).value_or(JobRank{});
  if (found.size > 1) found.job = name_of_job(lookup);
  return found;
}

int ranks_of_node(const VariableLookup& lookup) {
  std::vector<const char*> names = {"MN_INTRA_SIZE", "LOCAL_WORLD_SIZE"};
  for (const auto& launcher : kLauncherVariables) names.push_back(launcher.local_size);
  for (const char* name : names) {
    if (const auto size = number_in(lookup, name); size && *size > 0) return *size;
  }
  return in_slurm_step(lookup) ? most_tasks(lookup("SLURM_STEP_TASKS_PER_NODE").value_or("")) : 1;
}

std::optional<int> parse_rank(const std::string& text) {
  const auto rank = parse_number<int>(text);
  return rank && *rank >= 0 ? rank : std::nullopt;
}

bool in_slurm_step(const VariableLookup& lookup) {
  const auto step = lookup("SLURM_STEP_ID");
  // Batch scripts and interactive shells have reserved step ids near 2^32, which some versions of Slurm print as
  // negative numbers. All other step ids have fewer than 10 digits.
  return step && step->size() < 10 && !step->starts_with('-') && lookup("SLURM_PROCID").has_value();
}

void let_rank_zero_speak() { std::this_thread::sleep_for(std::chrono::seconds(2)); }

}  // namespace mn
