/// What a rank knows before round 1, and the outcome of round 2.
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
  int program_exit = 0;  ///< exit code if the program cannot be run
  Placement here;

  [[nodiscard]] bool is_compared() const { return options.check != CheckLevel::kOff || options.doctor; }
  /// On a single machine without a scheduler nobody could ask for more GPUs: the ranks share GPUs, with a warning.
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
  Verdict verdict;  ///< with its text only on the speaker
};

}  // namespace mn::launcher
