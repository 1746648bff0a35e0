/// Reads a batch script as sbatch(1) does: the #SBATCH lines end at the first command.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "batch/shell_words.hpp"
#include "batch/slurm_options.hpp"

namespace mn::launcher {

struct BatchScript {
  std::string text;
  std::vector<SlurmOption> options;
  bool are_options_sound = true;  ///< without findings; else checks that count on their values would mislead
  bool is_heterogeneous = false;  ///< has components, each with options of its own
  std::vector<ShellCommand> commands;
  std::filesystem::path folder;  ///< where its commands start: --chdir, or the current folder
};

/// What a script is started with.
struct BatchStart {
  std::vector<std::string> arguments;  ///< the script's
  std::filesystem::path folder;        ///< current folder
  Variables variables;
};

/// Whether `file` is meant for sbatch: it ends in .sbatch or .slurm, or has a line that begins with #SBATCH.
[[nodiscard]] bool is_batch_script(const std::filesystem::path& file);

/// What the command prints if it fails within five seconds; else empty.
[[nodiscard]] std::string output_of_failure(std::vector<std::string> command);

/// Reads the script and its options. No value if sbatch would reject the whole file.
[[nodiscard]] std::optional<BatchScript> read_batch_script(const std::filesystem::path& file, const BatchStart& start,
                                                           LineFindings& findings);

/// Findings about the options as a whole: output, signals and requeueing, numbers that contradict each other. In
/// check_options.cpp.
[[nodiscard]] LineFindings check_job_options(const BatchScript& script);

/// Findings about the commands that start ranks. In check_steps.cpp.
[[nodiscard]] LineFindings check_steps(const BatchScript& script);

}  // namespace mn::launcher
