#include "batch/steps.hpp"

#include <algorithm>
#include <string_view>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

using Words = std::vector<std::string>;

bool is_launcher(const std::string& word) {
  return is_one_of(base_name(word), {"srun", "mpiexec", "mpirun", "mpiexec.hydra", "orterun"});
}

/// Commands that start the command behind them.
bool is_wrapper(const std::string& name) {
  return is_one_of(name, {"command", "env", "nice", "nohup", "numactl", "stdbuf", "strace", "time", "timeout"});
}

bool only_informs(const Words& words) {
  return std::ranges::any_of(words, [](const std::string& word) {
    return is_one_of(word, {"--help", "--usage", "--version", "-h", "-V", "--mpi=list", "--multi-prog"});
  });
}

class StepReader {
 public:
  StepReader(const BatchScript& script, LineFindings& findings) : script_(script), findings_(findings) {}

  std::vector<Step> read() {
    std::vector<Step> steps;
    for (const auto& command : script_.commands) {
      if (auto step = read_step(command); step && are_all_known(*step)) steps.push_back(std::move(*step));
      note(command);
      ++so_far_.commands_before;
    }
    return steps;
  }

 private:
  static bool are_all_known(const Step& step) {
    return !has_unknown(step.options) && (step.program.empty() || step.program[0][0] != kUnknown);
  }

  void add(int line, const std::string& what, const std::string& remedy) { findings_.push_back({line, what, remedy}); }

  /// What the commands behind this one find changed.
  void note(const ShellCommand& command) {
    const std::string name = base_name(command.words[0]);
    if (is_one_of(name, {"cd", "pushd"})) so_far_.knows_folder = false;
    if (is_one_of(name, {".", "activate", "conda", "eval", "guix", "load", "mamba", "micromamba", "ml", "module", "nix",
                         "pixi", "poetry", "pyenv", "setpkgs", "source", "spack", "use", "uv"}) ||
        !is_known(name)) {
      so_far_.knows_paths = false;
    }
    if (is_one_of(name, {"aws",    "cc",    "cmake",  "cp",     "curl", "g++",   "gcc",  "git", "gsutil",
                         "ln",     "make",  "mpicc",  "mpicxx", "mv",   "ninja", "nvcc", "pip", "pip3",
                         "rclone", "rsync", "sbcast", "scp",    "tar",  "unzip", "wget"}) ||
        !is_known(name)) {
      so_far_.knows_files = false;
    }
  }

  /// No value if the command starts no ranks.
  std::optional<Step> read_step(const ShellCommand& command) {
    Step step = so_far_;
    step.line = command.line;
    step.variables = command.variables;
    if (!is_known(step.variables.get("PATH").value_or(""))) step.knows_paths = false;
    Words words = command.words;
    if (words[0] == "command" && words.size() > 1 && words[1].starts_with('-')) return std::nullopt;
    const auto launcher = std::ranges::find_if(words, is_launcher);
    if (base_name(words[0]) == "mnlaunch" && launcher != words.end()) {
      step.is_supervised = words[1] == "supervise";
      if (!step.is_supervised) add(command.line, "mnlaunch stands before the launcher", "srun -K mnlaunch PROGRAM");
      words.erase(words.begin(), launcher);
    }
    if (is_wrapper(base_name(words[0]))) {
      words.erase(words.begin(), std::ranges::find_if(words, is_launcher));
      if (words.size() < 2) return std::nullopt;
    }
    step.launcher = base_name(words[0]);
    if (step.launcher == "srun") {
      words.erase(words.begin());
      step.options = take_options(SlurmCommand::kSrun, words, command.line, findings_);
      if (last_value(step.options, "chdir")) step.knows_folder = false;
      if (last_value(step.options, "export").value_or("").find("PATH") != std::string::npos) step.knows_paths = false;
    } else if (is_launcher(step.launcher)) {
      words.erase(words.begin(), std::ranges::find(words, "mnlaunch", base_name));
    } else if (step.launcher != "mnlaunch") {
      return std::nullopt;
    }
    const bool is_empty = step.launcher == "srun" ? words.empty() && !has_unknown(step.options)
                                                  : is_launcher(step.launcher) && command.words.size() == 1;
    if (is_empty && !only_informs(command.words))
      add(step.line, step.launcher + " starts no program", step.launcher + " mnlaunch PROGRAM");
    step.program = std::move(words);
    if (!step.program.empty()) take_mnlaunch(step);
    return step;
  }

  /// Reads mnlaunch and its options, if the step starts it.
  void take_mnlaunch(Step& step) {
    const std::string name = step.program[0];
    if (step.launcher == "srun" && parse_number<std::int64_t>(name)) {
      add(step.line, "srun starts a program \"" + name + "\": an option takes no value behind a blank",
          "write -K1 or --kill-on-bad-exit=1 for -K 1, and so on");
    }
    step.has_mnlaunch = base_name(name) == "mnlaunch" && is_known(name);
    if (!step.has_mnlaunch) return;
    std::vector<const char*> words;
    for (const auto& word : step.program) words.push_back(word.c_str());
    try {
      step.mnlaunch = parse_options(static_cast<int>(words.size()), words.data());
    } catch (const UsageError& error) {
      const std::string text = error.what();
      if (is_known(text)) findings_.push_back(finding_of(step.line, "mnlaunch: " + text));
    }
    const auto file = script_.folder / name;
    std::error_code error;
    if (has_slash(name) && step.knows_folder && step.knows_files && !std::filesystem::exists(file, error)) {
      add(step.line, file.string() + " does not exist", "build it, or correct its path");
    }
    step.program = step.mnlaunch.program;
  }

  const BatchScript& script_;
  LineFindings& findings_;
  Step so_far_;
};

}  // namespace

std::vector<Step> read_steps(const BatchScript& script, LineFindings& findings) {
  return StepReader(script, findings).read();
}

bool starts_no_ranks(const BatchScript& script) {
  bool trains = false;
  for (const auto& command : script.commands) {
    const std::string name = base_name(command.words[0]);
    if (!is_known(name)) return false;
    trains |= name == "mnlaunch" || name.starts_with("python");
  }
  for (const auto line : split(script.text, '\n')) {
    const std::string_view text = trimmed(line);
    if (text.starts_with('#')) continue;
    for (const char* start : {"run", "mpi", "sh ", "dsh", "ray", "spark", "deepspeed", "source", "eval", "xargs"}) {
      if (text.find(start) != std::string_view::npos) return false;
    }
  }
  return trains;
}

}  // namespace mn::launcher
