/// The commands of a batch script that start ranks: srun, mpiexec and mnlaunch, and the program behind them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "batch/batch_script.hpp"
#include "cli/options.hpp"

namespace mn::launcher {

struct Step {
  int line = 0;
  std::string launcher;              ///< srun, mpiexec, …; mnlaunch if there is none
  std::vector<SlurmOption> options;  ///< srun's
  bool is_supervised = false;
  bool has_mnlaunch = false;
  Options mnlaunch;
  std::vector<std::string> program;  ///< what the ranks run, with its arguments; empty: nothing, or it is not known
  Variables variables;
  std::size_t commands_before = 0;  ///< the script's commands before this one
  bool knows_folder = true;         ///< no command before it changes the current folder
  bool knows_paths = true;          ///< no command before it loads modules, or changes PATH in another way
  bool knows_files = true;          ///< no command before it copies, builds or fetches files
};

/// The steps of which every option is known; what is wrong with their words goes to `findings`.
[[nodiscard]] std::vector<Step> read_steps(const BatchScript& script, LineFindings& findings);

/// Whether the script trains, but names nothing that may start ranks on other nodes.
[[nodiscard]] bool starts_no_ranks(const BatchScript& script);

}  // namespace mn::launcher
