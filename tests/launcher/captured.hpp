/// Environments that launchers gave their processes on a three-node Slurm 22.05 cluster with PMIx 4.2 and Open MPI 4.1.
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "launcher/place/placement.hpp"

namespace mn::launcher::captured {

/// The variables that srun sets for a task. `gtids` are the ranks on the task's node.
struct Task {
  int rank;
  int local;
  int node;
  std::string gtids;
};

/// "2(x3),1" → 4.
inline int nodes_in(const std::string& counts) {
  int nodes = 0;
  for (std::size_t begin = 0; begin < counts.size();) {
    const std::size_t end = std::min(counts.find(',', begin), counts.size());
    const std::size_t times = counts.substr(begin, end - begin).find("(x");
    nodes += times == std::string::npos ? 1 : std::stoi(counts.substr(begin + times + 2));
    begin = end + 1;
  }
  return nodes;
}

inline Variables step(const Task& task, const std::string& nodes, const std::string& counts, int size,
                      const std::string& distribution = "") {
  std::map<std::string, std::string> values = {{"SLURM_JOB_ID", "7"},
                                               {"SLURM_STEP_ID", "0"},
                                               {"SLURM_PROCID", std::to_string(task.rank)},
                                               {"SLURM_LOCALID", std::to_string(task.local)},
                                               {"SLURM_NODEID", std::to_string(task.node)},
                                               {"SLURM_GTIDS", task.gtids},
                                               {"SLURM_NTASKS", std::to_string(size)},
                                               {"SLURM_STEP_NUM_TASKS", std::to_string(size)},
                                               {"SLURM_STEP_NUM_NODES", std::to_string(nodes_in(counts))},
                                               {"SLURM_STEP_NODELIST", nodes},
                                               {"SLURM_STEP_TASKS_PER_NODE", counts}};
  if (!distribution.empty()) values["SLURM_DISTRIBUTION"] = distribution;
  return Variables(values);
}

/// Adds the variables of srun --mpi=pmix.
inline Variables with_pmix(Variables variables, int rank, const std::string& name_space = "slurm.pmix.7.0") {
  variables.set("PMIX_NAMESPACE", name_space);
  variables.set("PMIX_RANK", std::to_string(rank));
  return variables;
}

/// A batch script's own shell on two nodes with two tasks each.
inline Variables batch_script() {
  return Variables({{"SLURM_JOB_ID", "7"},
                    {"SLURM_PROCID", "0"},
                    {"SLURM_LOCALID", "0"},
                    {"SLURM_NODEID", "0"},
                    {"SLURM_GTIDS", "0"},
                    {"SLURM_NTASKS", "4"},
                    {"SLURM_TASKS_PER_NODE", "2(x2)"},
                    {"SLURM_JOB_NODELIST", "ma[1-2]"}});
}

/// Adds the variables of Open MPI's mpiexec.
inline Variables with_open_mpi(Variables variables, int rank, int size, int local, int local_size,
                               const std::string& name_space = "10616833") {
  variables.set("OMPI_COMM_WORLD_RANK", std::to_string(rank));
  variables.set("OMPI_COMM_WORLD_SIZE", std::to_string(size));
  variables.set("OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(local));
  variables.set("OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(local_size));
  return with_pmix(std::move(variables), rank, name_space);
}

/// The variables that MPICH's Hydra sets.
inline Variables hydra(Variables variables, int rank, int size, int local, int local_size) {
  variables.set("PMI_RANK", std::to_string(rank));
  variables.set("PMI_SIZE", std::to_string(size));
  variables.set("PMI_FD", "6");
  variables.set("MPI_LOCALRANKID", std::to_string(local));
  variables.set("MPI_LOCALNRANKS", std::to_string(local_size));
  return variables;
}

/// What Flux sets: nothing about nodes.
inline Variables flux(int rank, int size, int local) {
  return Variables({{"PMI_RANK", std::to_string(rank)},
                    {"PMI_SIZE", std::to_string(size)},
                    {"PMI_FD", "6"},
                    {"FLUX_TASK_RANK", std::to_string(rank)},
                    {"FLUX_JOB_SIZE", std::to_string(size)},
                    {"FLUX_TASK_LOCAL_ID", std::to_string(local)}});
}

}  // namespace mn::launcher::captured
