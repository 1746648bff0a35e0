// Checks of the commands of a batch script that start ranks. A check that would need a run is left out.
#include <algorithm>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

#include "batch/steps.hpp"
#include "facts/collect.hpp"
#include "facts/find_files.hpp"

namespace mn::launcher {
namespace {

/// The shell would replace the word by names of files, by a home folder, or by several words.
bool is_pattern(const std::string& word) { return word.find_first_of("*?[{~") != std::string::npos; }

class StepCheck {
 public:
  explicit StepCheck(const BatchScript& script) : script_(script) {}

  LineFindings run() {
    const auto steps = read_steps(script_, findings_);
    for (const auto& step : steps) check(step);
    if (script_.are_options_sound && first_number("nodes") > 1 && starts_no_ranks(script_)) {
      add(0, "no command starts the job's tasks: the script itself runs once, on the first node",
          "srun -K mnlaunch PROGRAM");
    }
    return std::move(findings_);
  }

 private:
  void add(int line, const std::string& what, const std::string& remedy) { findings_.push_back({line, what, remedy}); }

  // Options of the job; 0 if one is not given.
  [[nodiscard]] std::int64_t number(const char* name) const { return last_number(script_.options, name).value_or(0); }
  [[nodiscard]] std::int64_t first_number(const char* name) const {
    return parse_number<std::int64_t>(split(value_of(name), '-').front()).value_or(0);
  }
  [[nodiscard]] std::int64_t last_number_of(const char* name) const {
    return parse_number<std::int64_t>(split(value_of(name), '-').back()).value_or(0);
  }
  [[nodiscard]] std::string value_of(const char* name) const { return last_value(script_.options, name).value_or(""); }

  void check(const Step& step) {
    for (const auto& finding : check_values(step.options)) findings_.push_back(finding);
    if (!step.has_mnlaunch) return;  // mkdir and the like
    if (step.launcher == "srun") {
      check_end(step);
      if (script_.are_options_sound) check_numbers(step);
    }
    if (!last_value(step.options, "container") && !last_value(step.options, "container-image")) check_program(step);
  }

  void check_end(const Step& step) {
    const auto is_set = [&](const char* option, const char* variable) {
      const auto value = last_value(step.options, option);
      return (value ? *value : step.variables.get(variable).value_or("0")) != "0";
    };
    const bool ends = is_set("kill-on-bad-exit", "SLURM_KILL_BAD_EXIT") || is_set("wait", "SLURM_WAIT");
    const bool has_one_rank = last_number(step.options, "ntasks").value_or(number("ntasks")) == 1;
    if (ends || step.is_supervised || has_one_rank) return;
    add(step.line, "srun has neither -K nor --wait: if a rank dies, the others may wait until the time limit",
        "srun -K, or --kill-on-bad-exit=0 --wait=60 if ranks write checkpoints at signals");
  }

  void check_numbers(const Step& step) {
    if (number("cpus-per-task") > 1 && !last_value(step.options, "cpus-per-task") &&
        !step.variables.has("SRUN_CPUS_PER_TASK")) {
      add(step.line, "srun does not take --cpus-per-task from sbatch (since Slurm 22.05): each rank gets one core",
          "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK, or srun -c");
    }
    const std::int64_t nodes = last_number_of("nodes");
    const std::int64_t tasks = number("ntasks") > 0 ? number("ntasks") : nodes * number("ntasks-per-node");
    check_size(step, "nodes", nodes);
    if (!last_value(step.options, "overcommit")) check_size(step, "ntasks", tasks);
    const bool has_own_numbers = std::ranges::any_of(step.options, [](const SlurmOption& option) {
      const std::string& name = option.name;
      return name == "nodes" || name.starts_with("ntasks") || name.starts_with("gpu") || name == "gres" ||
             name == "exact" || name == "overlap" || name == "tres-per-task";
    });
    if (!has_own_numbers) check_gpus(step);
  }

  /// `most`: what the job has; 0 if that is not known.
  void check_size(const Step& step, const std::string& name, std::int64_t most) {
    const std::int64_t wanted = last_number(step.options, name).value_or(0);
    if (most == 0 || wanted <= most) return;
    add(step.line,
        "srun asks for --" + name + "=" + std::to_string(wanted) + ", more than the job's " + std::to_string(most),
        "ask sbatch for as many");
  }

  /// 0 if the job does not say it.
  [[nodiscard]] std::int64_t ranks_of_node() const {
    if (const auto ranks = number("ntasks-per-node"); ranks > 0) return ranks;
    const std::int64_t nodes = number("nodes");
    return nodes > 0 ? (std::max(number("ntasks"), nodes) + nodes - 1) / nodes : 0;
  }
  [[nodiscard]] std::int64_t gpus_of_node(std::int64_t ranks) const {
    if (last_value(script_.options, "gpus-per-node")) return gpu_count(value_of("gpus-per-node"));
    if (last_value(script_.options, "gpus-per-task")) return gpu_count(value_of("gpus-per-task")) * ranks;
    if (last_value(script_.options, "gpus"))
      return number("nodes") > 0 ? gpu_count(value_of("gpus")) / number("nodes") : 0;
    std::int64_t gpus = 0;
    const std::string gres = value_of("gres");
    for (const auto item : split(gres, ',')) {
      if (item == "gpu" || item.starts_with("gpu:")) gpus += gpu_count(std::string(item));
    }
    return gpus;
  }

  void check_gpus(const Step& step) {
    if (last_value(script_.options, "ntasks-per-gpu")) return;  // Slurm computes one number from the other
    const std::int64_t ranks = ranks_of_node(), gpus = gpus_of_node(ranks);
    if (gpus == 0 || ranks == 0) return;
    const std::string numbers = std::to_string(ranks) + " ranks a node and " + std::to_string(gpus) + " GPUs";
    if (ranks > gpus && !step.mnlaunch.oversubscribe_gpu) {
      add(step.line, numbers + ": mnlaunch stops ranks that share a GPU",
          "--ntasks-per-node=" + std::to_string(gpus) + ", or mnlaunch --oversubscribe-gpu");
    } else if (ranks < gpus) {
      add(step.line, numbers + ": GPUs stay idle", "--ntasks-per-node=" + std::to_string(gpus));
    }
    if (ranks > 1 && last_value(script_.options, "gpus-per-task") && value_of("gpu-bind") != "none") {
      add(step.line, "--gpus-per-task hides the ranks' GPUs from each other, so NCCL copies through the host",
          "--gpus-per-node=" + std::to_string(gpus));
    }
  }

  /// Whether an earlier command may make the file.
  [[nodiscard]] bool may_be_made(const std::string& file, const Step& step) const {
    const auto names_it = [&](const std::string& word) { return base_name(word) == base_name(file); };
    return std::any_of(
        script_.commands.begin(), script_.commands.begin() + static_cast<std::ptrdiff_t>(step.commands_before),
        [&](const ShellCommand& command) {
          const bool only_reads =
              is_one_of(base_name(command.words[0]), {"[", "[[", "cat", "echo", "ls", "module", "printf", "test"});
          return std::ranges::any_of(command.files, names_it) ||
                 (!only_reads && std::ranges::any_of(command.words, names_it));
        });
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
    std::string missing = name;
    try {
      here.program = find_program(name, here.folder, executable_path().parent_path(), path);
      check_runnable(here.program, path);
      const bool has_patterns = std::ranges::any_of(step.program, is_pattern);
      if (step.program.size() > 1) missing = step.program[1] == "-u" ? step.program.back() : step.program[1];
      if (step.knows_folder && !has_patterns && std::ranges::all_of(step.program, is_known))
        check_script(here.program, step.program, here.folder, path);
    } catch (const ProgramError& error) {
      if (!step.knows_files || may_be_made(missing, step)) return;
      findings_.push_back(finding_of(step.line, error.what()));
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
