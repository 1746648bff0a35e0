/// The variables that mnlaunch sets for any program: torch.distributed's and ours.
#pragma once

#include <optional>
#include <string>

#include "place/placement.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// What this rank computes with.
struct Equipment {
  std::string device = "cpu";                  ///< or cuda:K
  std::optional<std::string> visible_devices;  ///< CUDA_ or ROCR_VISIBLE_DEVICES; no value: as it is
  bool has_amd_gpu = false;
  bool is_alone = false;  ///< sees no other rank's GPU: for torch, a node of its own
  int threads = 1;
  bool bind_threads = false;
  std::string nic;       ///< the nearest network card; empty: none
  std::string nic_port;  ///< "mlx5_0:1", for UCX and NCCL to use alone; empty: they choose
  std::string route;     ///< the interface by which the nodes reach each other: "eth0"; empty: libraries choose
};

/// Threads for a rank with `cores` cores, one of `ranks` on a node whose cgroups grant `quota` CPUs (cpu_quota()).
[[nodiscard]] int threads_within(int cores, int ranks, double quota);

/// Adds the exports to `variables`. Those of OpenMP, UCX, NCCL and Gloo only where they are unset.
void add_exports(Variables& variables, const Placement& here, const Master& master, const Equipment& equipment);

}  // namespace mn::launcher
