#include "batch/dry_run.hpp"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mn/core/environment.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/standard_output.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

/// The first error of sbatch about options, partition, limits, account or nodes. Ignores an sbatch that has no
/// configuration or does not reach its controller.
void ask_slurm(const std::filesystem::path& file, LineFindings& findings) {
  constexpr std::size_t kLongest = 500;
  const std::string text = output_of_failure({"sbatch", "--test-only", file.string()});
  for (const char* failure : {"Unable to contact", "Could not establish a configuration source"}) {
    if (text.find(failure) != std::string::npos) return;
  }
  for (const auto line : split(text, '\n')) {
    for (const std::string_view begin :
         {"sbatch: error: ", "sbatch: fatal: ", "allocation failure: ", "submission failed: "}) {
      const std::size_t at = line.find(begin);
      if (at == std::string_view::npos) continue;
      findings.push_back({0, "sbatch rejects the job: " + std::string(line.substr(at + begin.size(), kLongest)),
                          "correct the option; sinfo shows partitions and nodes"});
      return;
    }
  }
}

std::string to_json(const std::string& file, const LineFindings& findings) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [line, what, remedy] : findings)
    all.push_back({{"file", file}, {"line", line}, {"what", what}, {"remedy", remedy}});
  return nlohmann::json{{"findings", all}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
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
  write_standard_output(options.json ? to_json(name, findings) : text);
  return findings.empty() ? 0 : 1;
}

}  // namespace mn::launcher
