/// What a rank knows before the first round, and what all ranks decide.
#pragma once

#include <string>
#include <vector>

#include "bind/binding.hpp"
#include "cli/options.hpp"
#include "facts/surroundings.hpp"
#include "place/pmix_launcher.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {

struct ThisRank {
  const Options& options;
  Surroundings surroundings;
  int program_exit = 0;  ///< exit code where there is no program to run
  Placement here;

  [[nodiscard]] bool is_compared() const { return options.check != CheckLevel::kOff || options.doctor; }
  /// On a single machine without a scheduler nobody could ask for more GPUs: its ranks share them, with a warning.
  [[nodiscard]] bool may_share_gpus() const {
    return options.oversubscribe_gpu || (here.inter_size == 1 && !is_by_slurm(here));
  }
  [[nodiscard]] BindingOptions binding_options() const {
    return {.bind_cores = options.bind, .oversubscribe_gpu = may_share_gpus(), .cpu_map = options.cpu_map};
  }
};

struct Outcome {
  Master master;
  Binding binding;
  std::vector<VisibleGpu> gpus;
  Verdict verdict;  ///< its text only on the rank that prints it
};

}  // namespace mn::launcher
