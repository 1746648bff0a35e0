#include "batch/dry_run.hpp"

#include <algorithm>
#include <chrono>
#include <sstream>

#include <mn/core/command_output.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/standard_output.hpp>

namespace mn::launcher {
namespace {

/// What Slurm's controller says about partition, limits, account and nodes; nothing if it cannot be reached.
void ask_slurm(const std::filesystem::path& file, LineFindings& findings) {
  constexpr std::chrono::seconds kPatience{5};
  std::istringstream lines(
      command_output({"sh", "-c", "exec sbatch --test-only \"$0\" 2>&1", file.string()}, kPatience));
  for (std::string line; std::getline(lines, line);) {
    for (const std::string mark : {"allocation failure: ", "submission failed: "}) {
      const std::size_t begin = line.find(mark);
      if (begin == std::string::npos || line.find("Unable to contact") != std::string::npos) continue;
      findings.push_back({0, "sbatch rejects the job: " + line.substr(begin + mark.size()),
                          "sinfo shows partitions, limits and nodes"});
    }
  }
}

}  // namespace

LineFindings check_batch_script(const std::filesystem::path& file, const BatchStart& start) {
  LineFindings findings;
  const auto script = read_batch_script(file, start, findings);
  if (!script) return findings;
  if (findings.empty()) ask_slurm(file, findings);
  for (auto& finding : check_job_options(*script)) findings.push_back(finding);
  for (auto& finding : check_steps(*script)) findings.push_back(finding);
  std::ranges::stable_sort(findings, {}, &LineFinding::line);
  return findings;
}

std::optional<int> run_batch_check(const Options& options) {
  if (!options.dry_run || options.program.empty() || rank_text_of_launcher(environment)) return std::nullopt;
  const std::string& name = options.program.front();
  if (!is_batch_script(name)) return std::nullopt;
  BatchStart start{.arguments = {options.program.begin() + 1, options.program.end()},
                   .folder = std::filesystem::current_path(),
                   .variables = Variables::of_this_process()};
  const auto findings = check_batch_script(name, start);
  std::string text;
  for (const auto& [line, what, remedy] : findings) {
    text += name + ":" + (line > 0 ? std::to_string(line) + ":" : "") + " " + what + "; " + remedy + "\n";
  }
  write_standard_output(text);
  return findings.empty() ? 0 : 1;
}

}  // namespace mn::launcher
