// The commands of a batch script that start ranks: srun, mnlaunch, and the program behind them.
#include <algorithm>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/text.hpp>

#include "batch/batch_script.hpp"
#include "cli/options.hpp"
#include "facts/collect.hpp"
#include "facts/elf.hpp"
#include "facts/find_files.hpp"

namespace mn::launcher {
namespace {

bool is_launcher(const std::string& word) {
  return is_one_of(base_name(word), {"srun", "mpiexec", "mpirun", "mpiexec.hydra", "orterun"});
}

/// Commands that start the command behind them.
bool is_wrapper(const std::string& name) {
  return is_one_of(name, {"command", "env", "nice", "nohup", "numactl", "stdbuf", "strace", "time", "timeout"});
}

/// The shell would replace the word by names of files, by a home folder, or by several words.
bool is_pattern(const std::string& word) { return word.find_first_of("*?[{~") != std::string::npos; }

struct Step {
  int line = 0;
  bool has_srun = false;
  bool is_supervised = false;
  std::vector<SlurmOption> options;  ///< srun's
  bool has_mnlaunch = false;
  Options mnlaunch;
  Words program;
  Variables variables;
  bool knows_folder = true;  ///< no command before it changes the current folder
  bool knows_paths = true;   ///< no command before it loads modules
};

class StepCheck {
 public:
  explicit StepCheck(const BatchScript& script) : script_(script) {}

  LineFindings run() {
    Step step;
    int steps = 0;
    for (const auto& command : script_.commands) {
      const std::string name = base_name(command.words[0]);
      if (is_one_of(name, {"cd", "pushd"})) step.knows_folder = false;
      if (is_one_of(name, {"module", "ml", "source", ".", "spack", "conda", "mamba", "eval"}) ||
          !is_known(command.variables.get("PATH").value_or(""))) {
        step.knows_paths = false;
      }
      steps += read_step(command, step) ? 1 : 0;
    }
    if (steps == 0 && !may_start_ranks(script_) &&
        (count("nodes") > 1 || count("ntasks") > 1 || count("ntasks-per-node") > 1)) {
      add(0, "no command starts the job's tasks: the script itself runs once, on the first node",
          "srun -K mnlaunch PROGRAM");
    }
    return std::move(findings_);
  }

 private:
  void add(int line, const std::string& what, const std::string& remedy) { findings_.push_back({line, what, remedy}); }

  /// `text`: "WHAT; REMEDY", or WHAT alone.
  void add_error(int line, const std::string& text) {
    const std::size_t end = text.find("; ");
    add(line, text.substr(0, end), end == std::string::npos ? "correct the command" : text.substr(end + 2));
  }

  /// The value of an option of the step, else of the job.
  [[nodiscard]] std::optional<std::string> value_of(const char* name, const Step* step = nullptr) const {
    const auto value = step != nullptr ? last_value(step->options, name) : std::nullopt;
    return value ? value : last_value(script_.options, name);
  }
  /// 0 if the option is not given. The job's --nodes=2-4 counts as its first number, or as its last.
  [[nodiscard]] std::int64_t count(const char* name, const Step* step = nullptr) const {
    return parse_number<std::int64_t>(split(value_of(name, step).value_or(""), '-').front()).value_or(0);
  }
  [[nodiscard]] std::int64_t last_count(const char* name) const {
    return parse_number<std::int64_t>(split(value_of(name).value_or(""), '-').back()).value_or(0);
  }

  /// Whether the script names a word of the program in earlier lines, as a script does that makes the program.
  [[nodiscard]] bool is_named_before(const Step& step) const {
    std::size_t end = 0;
    for (int line = 1; line < step.line && end != std::string::npos; ++line) end = script_.text.find('\n', end + 1);
    const std::string_view before = std::string_view(script_.text).substr(0, end);
    return std::ranges::any_of(step.program, [&](const std::string& word) {
      const bool is_file_name = word.find_first_of("./") != std::string::npos && !word.starts_with('-');
      return is_file_name && before.find(base_name(word)) != std::string_view::npos;
    });
  }

  /// Checks the command if it starts ranks; else returns false. `before` has what the commands before it have changed.
  bool read_step(const ShellCommand& command, const Step& before) {
    Step step = before;
    step.line = command.line;
    step.variables = command.variables;
    Words words = command.words;
    const auto launcher = std::ranges::find_if(words, is_launcher);
    if (base_name(words[0]) == "mnlaunch" && launcher != words.end()) {
      step.is_supervised = words[1] == "supervise";
      if (!step.is_supervised) add(command.line, "mnlaunch stands before the launcher", "srun -K mnlaunch PROGRAM");
      words.erase(words.begin(), launcher);
    }
    if (is_wrapper(base_name(words[0]))) {
      words.erase(words.begin(), std::ranges::find_if(words, is_launcher));
      if (words.empty()) return false;
    }
    const std::string first = base_name(words[0]);
    step.has_srun = first == "srun";
    if (step.has_srun) {
      words.erase(words.begin());
      step.options = take_options(SlurmCommand::kSrun, words, command.line, findings_);
      if (last_value(step.options, "chdir")) step.knows_folder = false;
    } else if (is_launcher(first)) {
      words.erase(words.begin(), std::ranges::find(words, "mnlaunch", base_name));
    } else if (first != "mnlaunch") {
      return false;
    }
    step.program = std::move(words);
    if (!step.program.empty()) take_mnlaunch(step);
    if (!step.has_mnlaunch) check_start(step, command);
    check(step);
    return true;
  }

  /// Findings about a launcher that starts no program.
  void check_start(const Step& step, const ShellCommand& command) {
    const std::string launcher = command.words.front();
    const bool only_informs = std::ranges::any_of(command.words, [](const std::string& word) {
      return is_one_of(word, {"--help", "--usage", "--version", "-h", "-V", "--mpi=list", "--multi-prog"});
    });
    if (step.has_srun && !step.program.empty() && parse_number<std::int64_t>(step.program[0])) {
      add(step.line, "srun starts a program \"" + step.program[0] + "\": an option takes no value behind a blank",
          "write -K1 or --kill-on-bad-exit=1 for -K 1, and so on");
    } else if (!only_informs && (step.has_srun ? step.program.empty() : command.words.size() == 1)) {
      add(step.line, launcher + " starts no program", launcher + " mnlaunch PROGRAM");
    }
  }

  /// Reads mnlaunch and its options, if the step starts it. A variable instead of a program may be mnlaunch.
  void take_mnlaunch(Step& step) {
    const std::string name = step.program[0];
    step.has_mnlaunch = base_name(name) == "mnlaunch" || !is_known(name);
    if (!step.has_mnlaunch) return;
    std::vector<const char*> words;
    for (const auto& word : step.program) words.push_back(word.c_str());
    try {
      step.mnlaunch = parse_options(static_cast<int>(words.size()), words.data());
    } catch (const UsageError& error) {
      if (is_known(name)) add_error(step.line, std::string("mnlaunch: ") + error.what());
    }
    const auto file = script_.folder / name;
    std::error_code error;
    if (has_slash(name) && is_known(name) && step.knows_folder && !std::filesystem::exists(file, error)) {
      add(step.line, file.string() + " does not exist", "build it, or correct its path");
    }
    step.program = step.mnlaunch.program;
  }

  void check(const Step& step) {
    for (const auto& finding : check_values(step.options)) findings_.push_back(finding);
    const bool is_python = !step.program.empty() && base_name(step.program[0]).starts_with("python");
    if (step.has_srun && !step.has_mnlaunch && is_python) {
      add(step.line, "the program starts without mnlaunch: its ranks have no MASTER_ADDR and no GPU of their own",
          "srun -K mnlaunch " + step.program[0]);
    }
    if (!step.has_mnlaunch) return;  // mkdir and the like
    if (step.has_srun) check_srun(step);
    if (step.has_srun && script_.are_options_sound) check_gpus(step);
    check_program(step);
  }

  void check_srun(const Step& step) {
    const auto is_set = [&](const char* option, const char* variable) {
      const auto value = last_value(step.options, option);
      return (value ? *value : step.variables.get(variable).value_or("0")) != "0";
    };
    const bool ends = is_set("kill-on-bad-exit", "SLURM_KILL_BAD_EXIT") || is_set("wait", "SLURM_WAIT");
    if (!ends && !step.is_supervised) {
      add(step.line, "srun has neither -K nor --wait: if a rank dies, the others may wait until the time limit",
          "srun -K, or --kill-on-bad-exit=0 --wait=60 if ranks write checkpoints at signals");
    }
    if (count("cpus-per-task") > 1 && !last_value(step.options, "cpus-per-task") &&
        !step.variables.has("SRUN_CPUS_PER_TASK")) {
      add(step.line, "srun does not take --cpus-per-task from sbatch (since Slurm 22.05): each rank gets one core",
          "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK, or srun -c");
    }
    const std::int64_t nodes = last_count("nodes");
    const std::int64_t tasks = last_count("ntasks") > 0 ? last_count("ntasks") : nodes * count("ntasks-per-node");
    check_size(step, "nodes", nodes);
    check_size(step, "ntasks", tasks);
  }

  /// `most`: what the job has; 0 if that is not known.
  void check_size(const Step& step, const std::string& name, std::int64_t most) {
    const auto wanted = parse_number<std::int64_t>(last_value(step.options, name).value_or("")).value_or(0);
    if (!script_.are_options_sound || most == 0 || wanted <= most) return;
    add(step.line,
        "srun asks for --" + name + "=" + std::to_string(wanted) + ", more than the job's " + std::to_string(most),
        "ask sbatch for as many");
  }

  [[nodiscard]] std::int64_t gpus_of_node(const Step& step, std::int64_t nodes, std::int64_t ranks) const {
    if (const auto gpus = value_of("gpus", &step)) return gpu_count(*gpus) / nodes;
    if (const auto gpus = value_of("gpus-per-node", &step)) return gpu_count(*gpus);
    if (const auto gpus = value_of("gpus-per-task", &step)) return gpu_count(*gpus) * ranks;
    std::int64_t gpus = 0;
    const std::string gres = value_of("gres", &step).value_or("");
    for (const auto item : split(gres, ',')) gpus += item.starts_with("gpu") ? gpu_count(std::string(item)) : 0;
    return gpus;
  }

  void check_gpus(const Step& step) {
    if (value_of("ntasks-per-gpu", &step)) return;  // Slurm computes one number from the other
    const std::int64_t nodes = std::max<std::int64_t>(count("nodes", &step), 1);
    std::int64_t ranks = count("ntasks-per-node", &step);
    if (ranks == 0) ranks = (std::max(count("ntasks", &step), nodes) + nodes - 1) / nodes;
    // Slurm then chooses the number of nodes.
    if (!value_of("nodes", &step) && !value_of("ntasks-per-node", &step) && !value_of("gpus", &step)) return;
    const std::int64_t gpus = gpus_of_node(step, nodes, ranks);
    if (gpus == 0) return;
    const std::string numbers = std::to_string(ranks) + " ranks a node and " + std::to_string(gpus) + " GPUs";
    if (ranks > gpus && !step.mnlaunch.oversubscribe_gpu) {
      add(step.line, numbers + ": mnlaunch stops ranks that share a GPU",
          "--ntasks-per-node=" + std::to_string(gpus) + ", or mnlaunch --oversubscribe-gpu");
    } else if (ranks < gpus) {
      add(step.line, numbers + ": GPUs stay idle", "--ntasks-per-node=" + std::to_string(gpus));
    }
    if (ranks > 1 && value_of("gpus-per-task", &step)) {
      add(step.line, "--gpus-per-task hides the ranks' GPUs from each other, so NCCL copies through the host",
          "--gpus-per-node=" + std::to_string(gpus));
    }
  }

  void check_program(const Step& step) {
    if (step.program.empty() || !is_known(step.program[0]) || is_pattern(step.program[0])) return;
    const std::string& name = step.program[0];
    if (base_name(name) == "torchrun") {
      add(step.line, "torchrun under mnlaunch would start other ranks beside it", "srun -K mnlaunch python train.py");
      return;
    }
    if (has_slash(name) && name[0] != '/' ? !step.knows_folder : !has_slash(name) && !step.knows_paths) return;
    const std::string path = step.variables.get("PATH").value_or("/bin:/usr/bin");
    Surroundings here;
    here.variables = step.variables;
    here.folder = script_.folder;
    here.arguments = step.program;
    try {
      here.program = find_program(name, here.folder, executable_path().parent_path(), path);
      check_runnable(here.program, path);
      const bool has_patterns = std::ranges::any_of(step.program, is_pattern);
      if (step.knows_folder && !has_patterns && std::ranges::all_of(step.program, is_known))
        check_script(here.program, step.program, here.folder, path);
    } catch (const ProgramError& error) {
      if (!is_named_before(step)) add_error(step.line, error.what());
      return;
    }
    const bool has_own_libraries = step.variables.get("LD_LIBRARY_PATH") != environment("LD_LIBRARY_PATH");
    if (step.knows_paths && !has_own_libraries) check_libraries(step, collect_program_facts(here));
  }

  void check_libraries(const Step& step, const ProgramFacts& facts) {
    if (!facts.missing.empty()) {
      add(step.line, "the dynamic loader does not find " + join(facts.missing),
          "load the modules of the build, or set LD_LIBRARY_PATH");
    }
    const std::string mpi = last_value(step.options, "mpi").value_or("pmix");
    if (facts.mpi == "Open MPI" && is_known(mpi) && !mpi.starts_with("pmix")) {
      add(step.line, "a program of Open MPI under --mpi=" + mpi + ": its ranks would be jobs of one each",
          "srun --mpi=pmix");
    }
  }

  const BatchScript& script_;
  LineFindings findings_;
};

}  // namespace

LineFindings check_steps(const BatchScript& script) { return StepCheck(script).run(); }

}  // namespace mn::launcher
