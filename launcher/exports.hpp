/// The variables that mnlaunch sets for any program: torch.distributed's and ours.
#pragma once

#include <string>

#include "place/placement.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// Where rank 0 can be reached. An empty address is not known, and not exported.
struct Master {
  std::string address;
  int port = 0;
};

/// Adds the exports to `variables`. `device` is cpu or cuda:K; `threads` becomes OMP_NUM_THREADS if that is unset.
void add_exports(Variables& variables, const Placement& here, const Master& master, const std::string& device,
                 int threads);

}  // namespace mn::launcher
