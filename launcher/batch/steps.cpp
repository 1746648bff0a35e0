// The commands of a batch script that start ranks: srun, mnlaunch, and the program behind them.
#include <algorithm>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

#include "batch/batch_script.hpp"
#include "cli/options.hpp"
#include "facts/collect.hpp"
#include "facts/find_files.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_one_of(const std::string& word, std::initializer_list<const char*> list) {
  return std::ranges::find(list, word) != list.end();
}

bool is_mpiexec(const std::string& name) { return is_one_of(name, {"mpiexec", "mpirun", "mpiexec.hydra", "orterun"}); }

struct Step {
  int line = 0;
  std::string launcher;  ///< srun, mpiexec or empty
  bool is_supervised = false;
  std::vector<SlurmOption> options;  ///< srun's
  bool has_mnlaunch = false;
  Options mnlaunch;
  Words program;
  Variables variables;
  bool knows_folder = true;  ///< neither cd nor modules came before it
  bool knows_paths = true;
};

class StepCheck {
 public:
  explicit StepCheck(const BatchScript& script) : script_(script) {}

  LineFindings run() {
    bool knows_folder = true;
    bool knows_paths = true;
    int steps = 0;
    for (const auto& command : script_.commands) {
      const std::string name = base_name(command.words[0]);
      if (is_one_of(name, {"cd", "pushd"})) knows_folder = false;
      if (is_one_of(name, {"module", "ml", "source", ".", "spack", "conda", "mamba", "eval"})) knows_paths = false;
      Step step;
      step.knows_folder = knows_folder;
      step.knows_paths = knows_paths && is_known(command.variables.get("PATH").value_or(""));
      if (!read_step(command, step)) continue;
      ++steps;
      check(step);
    }
    if (steps == 0 && (count("nodes") > 1 || count("ntasks") > 1 || count("ntasks-per-node") > 1)) {
      add(0, "no command starts the job's tasks: the script itself runs once, on the first node",
          "srun -K mnlaunch PROGRAM");
    }
    return std::move(findings_);
  }

 private:
  void add(int line, const std::string& what, const std::string& remedy) { findings_.push_back({line, what, remedy}); }

  /// An option of the step, or of the job. 0 if it is not given or has no known number.
  [[nodiscard]] std::int64_t count(const std::string& name, const Step* step = nullptr) const {
    auto value = step != nullptr ? last_value(step->options, name) : std::nullopt;
    if (!value) value = last_value(script_.options, name);
    return parse_number<std::int64_t>(split(value.value_or(""), '-')[0]).value_or(0);
  }

  /// The job's value of --nodes=2-4 is 4 at most.
  [[nodiscard]] std::int64_t most_of_job(const std::string& name) const {
    const std::string value = last_value(script_.options, name).value_or("");
    return parse_number<std::int64_t>(split(value, '-').back()).value_or(0);
  }

  /// False if the command starts no ranks.
  bool read_step(const ShellCommand& command, Step& step) {
    step.line = command.line;
    step.variables = command.variables;
    Words words = command.words;
    const auto drop_until = [&](auto matches) {
      words.erase(words.begin(),
                  std::ranges::find_if(words, [&](const auto& word) { return matches(base_name(word)); }));
    };
    const auto is_launcher = [](const std::string& name) { return name == "srun" || is_mpiexec(name); };
    if (base_name(words[0]) == "mnlaunch" &&
        std::ranges::any_of(words, [&](const auto& w) { return is_launcher(base_name(w)); })) {
      step.is_supervised = words.size() > 1 && words[1] == "supervise";
      if (!step.is_supervised) add(command.line, "mnlaunch stands before the launcher", "srun -K mnlaunch PROGRAM");
      drop_until(is_launcher);
    }
    if (words.empty()) return false;
    step.launcher = base_name(words[0]);
    if (step.launcher == "srun") {
      words.erase(words.begin());
      step.options = take_options(SlurmCommand::kSrun, words, command.line, findings_);
    } else if (is_mpiexec(step.launcher)) {
      drop_until([](const std::string& name) { return name == "mnlaunch"; });
    } else if (step.launcher != "mnlaunch") {
      return false;
    }
    step.program = std::move(words);
    take_mnlaunch(step);
    return true;
  }

  /// Reads mnlaunch and its options, if the step starts it.
  void take_mnlaunch(Step& step) {
    if (step.program.empty()) return;
    step.has_mnlaunch = base_name(step.program[0]) == "mnlaunch" || !is_known(step.program[0]);
    if (!step.has_mnlaunch) return;
    std::vector<const char*> words;
    for (const auto& word : step.program) words.push_back(word.c_str());
    try {
      step.mnlaunch = parse_options(static_cast<int>(words.size()), words.data());
    } catch (const UsageError& error) {
      if (is_known(step.program[0])) add(step.line, std::string("mnlaunch: ") + error.what(), "correct the command");
    }
    if (step.program[0].find('/') != std::string::npos && is_known(step.program[0]) && step.knows_folder) {
      std::error_code error;
      const fs::path file = script_.folder / step.program[0];
      if (!fs::exists(file, error)) add(step.line, file.string() + " does not exist", "build it, or correct its path");
    }
    step.program = step.mnlaunch.program;
  }

  void check(const Step& step) {
    for (const auto& finding : check_values(step.options)) findings_.push_back(finding);
    if (step.launcher == "srun") check_srun(step);
    if (step.has_mnlaunch && script_.are_options_sound) check_gpus(step);
    check_program(step);
  }

  void check_srun(const Step& step) {
    const bool is_python = !step.program.empty() && base_name(step.program[0]).starts_with("python");
    if (!step.has_mnlaunch && is_python) {
      add(step.line, "the program starts without mnlaunch: its ranks have no MASTER_ADDR and no GPU of their own",
          "srun -K mnlaunch " + step.program[0]);
    }
    if (!step.has_mnlaunch) return;  // mkdir and the like
    const auto kill = last_value(step.options, "kill-on-bad-exit");
    const bool ends = (kill && kill != "0") || last_value(step.options, "wait") || step.is_supervised ||
                      step.variables.has("SLURM_KILL_BAD_EXIT") || step.variables.has("SLURM_WAIT");
    if (!ends) {
      add(step.line, "srun has neither -K nor --wait: if a rank dies, the others may wait until the time limit",
          "srun -K, or --kill-on-bad-exit=0 --wait=60 if ranks write checkpoints at signals");
    }
    if (count("cpus-per-task") > 1 && !last_value(step.options, "cpus-per-task") &&
        !step.variables.has("SRUN_CPUS_PER_TASK")) {
      add(step.line, "srun does not take --cpus-per-task from sbatch (since Slurm 22.05): each rank gets one core",
          "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK, or srun -c");
    }
    if (script_.are_options_sound) check_size(step);
  }

  void check_size(const Step& step) {
    for (const char* name : {"ntasks", "nodes"}) {
      const auto wanted = parse_number<std::int64_t>(last_value(step.options, name).value_or("")).value_or(0);
      std::int64_t most = most_of_job(name);
      if (name == std::string("ntasks") && most == 0) most = most_of_job("nodes") * count("ntasks-per-node");
      if (most == 0 || wanted <= most) continue;
      add(step.line,
          "srun asks for --" + std::string(name) + "=" + std::to_string(wanted) + ", more than the job's " +
              std::to_string(most),
          "ask sbatch for as many");
    }
  }

  [[nodiscard]] std::int64_t gpus_of_node(const Step& step, std::int64_t ranks) const {
    const auto of = [&](const char* name) {
      auto value = last_value(step.options, name);
      if (!value) value = last_value(script_.options, name);
      return value ? gpu_count(*value).value_or(0) : 0;
    };
    if (of("gpus-per-node") > 0) return of("gpus-per-node");
    if (of("gpus-per-task") > 0) return of("gpus-per-task") * ranks;
    if (of("gpus") > 0 && count("nodes", &step) > 0) return of("gpus") / count("nodes", &step);
    auto gres = last_value(step.options, "gres");
    if (!gres) gres = last_value(script_.options, "gres");
    return gres && gres->starts_with("gpu") ? gpu_count(*gres).value_or(0) : 0;
  }

  void check_gpus(const Step& step) {
    std::int64_t ranks = count("ntasks-per-node", &step);
    const std::int64_t nodes = std::max<std::int64_t>(count("nodes", &step), 1);
    if (ranks == 0) ranks = (std::max<std::int64_t>(count("ntasks", &step), nodes) + nodes - 1) / nodes;
    const std::int64_t gpus = gpus_of_node(step, ranks);
    if (gpus == 0) return;
    const std::string numbers = std::to_string(ranks) + " ranks a node and " + std::to_string(gpus) + " GPUs";
    if (ranks > gpus && !step.mnlaunch.oversubscribe_gpu) {
      add(step.line, numbers + ": mnlaunch stops ranks that share a GPU",
          "--ntasks-per-node=" + std::to_string(gpus) + ", or mnlaunch --oversubscribe-gpu");
    } else if (ranks < gpus) {
      add(step.line, numbers + ": GPUs stay idle", "--ntasks-per-node=" + std::to_string(gpus));
    }
    if (ranks > 1 && (last_value(step.options, "gpus-per-task") || last_value(script_.options, "gpus-per-task"))) {
      add(step.line, "--gpus-per-task hides the ranks' GPUs from each other, so NCCL copies through the host",
          "--gpus-per-node=" + std::to_string(gpus));
    }
  }

  void check_program(const Step& step) {
    if (step.program.empty() || !is_known(step.program[0]) || !step.has_mnlaunch) return;
    const std::string& name = step.program[0];
    if (base_name(name) == "torchrun") {
      add(step.line, "torchrun under mnlaunch would start other ranks beside it", "srun -K mnlaunch python train.py");
      return;
    }
    const bool has_slash = name.find('/') != std::string::npos;
    if (has_slash && name[0] != '/' ? !step.knows_folder : !has_slash && !step.knows_paths) return;
    const std::string path = step.variables.get("PATH").value_or("/bin:/usr/bin");
    Surroundings here;
    here.variables = step.variables;
    here.folder = script_.folder;
    here.arguments = step.program;
    try {
      here.program = find_program(name, here.folder, executable_path().parent_path(), path);
      check_runnable(here.program);
      if (step.knows_folder) check_script(here.program, step.program, here.folder, path);
    } catch (const ProgramError& error) {
      add(step.line, error.what(), "correct the command, or build the program");
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
    const auto mpi = last_value(step.options, "mpi");
    if (facts.mpi == "Open MPI" && mpi && is_known(*mpi) && !mpi->starts_with("pmix")) {
      add(step.line, "a program of Open MPI under --mpi=" + *mpi + ": its ranks would be jobs of one each",
          "srun --mpi=pmix");
    }
  }

  const BatchScript& script_;
  LineFindings findings_;
};

}  // namespace

LineFindings check_steps(const BatchScript& script) { return StepCheck(script).run(); }

}  // namespace mn::launcher
