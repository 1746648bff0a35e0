/// The variables that mnlaunch exports to the program, for torch.distributed and for mn.
#pragma once

#include <string>

#include "bind/affinity.hpp"
#include "place/placement.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

struct Equipment {
  GpuView gpus;
  int threads = 1;
  bool bind_threads = false;
  std::string nic;       ///< nearest network card; empty: none
  std::string nic_port;  ///< "mlx5_0:1": the only port for UCX and NCCL; empty: they choose
  std::string route;     ///< interface between the nodes: "eth0"; empty: libraries choose
};

/// The number of threads for a rank with `cores` cores, if control groups allow the node's `ranks` ranks the time of
/// `quota` CPUs (cpu_quota()).
[[nodiscard]] int threads_within(int cores, int ranks, double quota);

/// Adds the exported variables. Does not change variables of OpenMP, UCX, NCCL or Gloo that are set.
void add_exports(Variables& variables, const Placement& here, const Master& master, const Equipment& equipment);

}  // namespace mn::launcher
