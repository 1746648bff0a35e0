// Checks of a batch script's options, which are sound each by itself.
#include <algorithm>
#include <filesystem>

#include <mn/core/text.hpp>

#include "batch/batch_script.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

class OptionCheck {
 public:
  explicit OptionCheck(const BatchScript& script) : script_(script) {}

  LineFindings run() {
    std::error_code error;
    const std::string folder = script_.folder.string();
    if (value_of("chdir") && !fs::is_directory(folder, error)) {
      add("chdir", "the folder " + folder + " does not exist", "create it");
    } else {
      check_output("output");
      check_output("error");
    }
    check_requeue();
    const auto nodes = parse_number<std::int64_t>(split(value_of("nodes").value_or(""), '-')[0]);
    const auto tasks = last_number(script_.options, "ntasks");
    if (nodes && tasks && *tasks < *nodes) {
      add("ntasks", std::to_string(*tasks) + " tasks cannot use " + std::to_string(*nodes) + " nodes",
          "give --ntasks-per-node in place of --ntasks");
    }
    return std::move(findings_);
  }

 private:
  [[nodiscard]] std::optional<std::string> value_of(const char* name) const {
    return last_value(script_.options, name);
  }
  void add(const char* name, const std::string& what, const std::string& remedy) {
    const auto option = std::ranges::find(script_.options, name, &SlurmOption::name);
    findings_.push_back({option->line, what, remedy});
  }

  void check_output(const char* name) {
    const std::string value = value_of(name).value_or("");
    const std::string folder = (script_.folder / value).parent_path().string();
    std::error_code error;
    if (fs::is_directory(script_.folder / value, error) && !value.empty()) {
      add(name, value + " is a folder: Slurm ends the job without a message",
          "write the name of a file, such as " + (fs::path(value) / "%j.out").string());
      return;
    }
    if (value.empty() || folder.find('%') != std::string::npos || fs::is_directory(folder, error)) return;
    add(name, "the folder " + folder + " does not exist: Slurm ends the job without a message", "mkdir -p " + folder);
  }

  void check_requeue() {
    const auto signal = value_of("signal");
    const bool requeues = script_.text.find("scontrol requeue") != std::string::npos;  // which Slurm allows by default
    if (signal && !requeues && !value_of("requeue") && !value_of("no-requeue")) {
      add("signal", "--signal without --requeue: a job that saves at the signal ends there",
          "add #SBATCH --requeue, and scontrol requeue at status 75; or --no-requeue");
    }
    if (signal && signal->starts_with("B:") && script_.text.find("trap ") == std::string::npos) {
      add("signal", "the signal goes to the script, which has no trap and so dies of it",
          "leave out B:, or set a trap that passes the signal on");
    }
    if (value_of("requeue") && value_of("open-mode") != "append") {
      add("requeue", "a job that starts again empties its output file", "add #SBATCH --open-mode=append");
    }
  }

  const BatchScript& script_;
  LineFindings findings_;
};

}  // namespace

LineFindings check_job_options(const BatchScript& script) {
  return script.are_options_sound ? OptionCheck(script).run() : LineFindings();
}

}  // namespace mn::launcher
