#include "alone.hpp"

#include <iostream>

#include <mn/core/environment.hpp>

#include "facts/addresses.hpp"
#include "facts/collect.hpp"
#include "node_share.hpp"
#include "place/slurm.hpp"

namespace mn::launcher {
namespace {

/// Whether the scheduler made the mask for this rank alone.
bool has_own_mask(const Variables& variables, const RankFacts& rank) {
  const int wanted = variables.number("SLURM_CPUS_PER_TASK").value_or(0);
  return static_cast<int>(rank.resources.mask.size()) <= wanted;
}

/// Empty if the launcher does not say where rank 0 is.
std::string guess_master_address(const Connection& connection, const Variables& variables) {
  const Placement& here = connection.here;
  if (here.inter_size == 1) return "127.0.0.1";
  if (!connection.master_address.empty()) return connection.master_address;
  if (here.layout) return here.layout->hosts.front();
  // The job may have more nodes than the step, whose first has rank 0.
  for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (const auto nodes = variables.get(list)) return hosts_of_list(*nodes).at(0);
  }
  return here.inter_rank == 0 ? own_address(routed_interfaces(), resolve(host_name())) : "";
}

void note_not_compared(const Connection& connection, const Options& options) {
  if (connection.here.rank != 0 || connection.here.inter_size == 1 || options.check == CheckLevel::kOff) return;
  std::cerr << "mnlaunch: note: " << connection.no_exchange
            << "; the nodes were not compared (srun --mpi=pmix and Open MPI's mpiexec make that possible)" << std::endl;
}

Verdict decide_alone(const ThisRank& rank, const NodeShare& share, const Binding& binding) {
  JobFacts job{.launcher = rank.here.launcher,
               .layout = Layout{{0}, {host_name()}},
               .nodes = {share.node},
               .ranks = {share.ranks[0]},
               .bindings = {{binding}},
               .gpu_sharing_is_meant = rank.options.oversubscribe_gpu};
  job.ranks[0].size = 1;
  return decide(job, rank.options, rank.here, rank.program_exit);
}

}  // namespace

Outcome check_alone(const Connection& connection, const ThisRank& rank) {
  const Placement& here = rank.here;
  const Variables& variables = rank.surroundings.variables;
  NodeShare share;
  share.node = collect_node_facts(here, rank.surroundings, rank.is_compared());
  share.ranks.assign(static_cast<std::size_t>(here.intra_size), collect_rank_facts(here, rank.surroundings));
  const bool own_mask = has_own_mask(variables, share.ranks[0]);
  BindingOptions binding = rank.binding_options();
  binding.bind_cores = binding.bind_cores && !own_mask;
  bind(share, binding);

  Outcome outcome;
  outcome.binding = share.bindings[static_cast<std::size_t>(here.intra_rank)];
  outcome.gpus = share.ranks[0].resources.gpus;
  if (own_mask) outcome.binding.cores = static_cast<int>(outcome.binding.cpus.size());
  outcome.verdict = decide_alone(rank, share, outcome.binding);
  outcome.exit_code = outcome.verdict.exit_code;
  outcome.master = {guess_master_address(connection, variables), port_of_job(here.job)};
  if (here.size == 1) outcome.master.port = free_port_of_job(here.job, is_free_port);
  if (outcome.exit_code == 0) note_not_compared(connection, rank.options);
  return outcome;
}

}  // namespace mn::launcher
