/// The variables that mnlaunch exports to the program: torch.distributed's and mn's.
#pragma once

#include <string>

#include "bind/affinity.hpp"
#include "place/placement.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// The devices of a rank.
struct Equipment {
  GpuView gpus;
  int threads = 1;
  bool bind_threads = false;
  std::string nic;       ///< nearest network card; empty: none
  std::string nic_port;  ///< "mlx5_0:1": the only port for UCX and NCCL; empty: they choose
  std::string route;     ///< interface between the nodes: "eth0"; empty: libraries choose
};

/// The number of threads for a rank with `cores` cores. The node has `ranks` ranks, whose cgroups grant `quota` CPUs
/// (cpu_quota()) together.
[[nodiscard]] int threads_within(int cores, int ranks, double quota);

/// Adds the exports to `variables`. Variables of OpenMP, UCX, NCCL and Gloo that are already set keep their values.
void add_exports(Variables& variables, const Placement& here, const Master& master, const Equipment& equipment);

}  // namespace mn::launcher
