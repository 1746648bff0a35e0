#include "start/start.hpp"

#include <filesystem>
#include <string>

#include <mn/core/cpus.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/net/interfaces.hpp>

#include "bind/cpu_set.hpp"
#include "bind/memory.hpp"
#include "facts/gpu/gpu_view.hpp"
#include "facts/ports.hpp"
#include "start/exec.hpp"
#include "start/exports.hpp"
#include "start/labels.hpp"
#include "start/output.hpp"
#include "start/self_test.hpp"

namespace mn::launcher {
namespace {

/// "mlx5_0:1"; empty unless the card is an InfiniBand or RoCE device.
std::string port_of_nic(const std::string& nic, const std::filesystem::path& root) {
  const auto port = first_active_port(nic, root);
  return port ? nic + ":" + std::to_string(*port) : "";
}

Equipment equipment_of(const ThisRank& rank, const Outcome& outcome) {
  const Options& options = rank.options;
  const Binding& binding = outcome.binding;
  const auto& root = rank.surroundings.root;
  const GpuView view = view_gpus(outcome.gpus, binding, rank.here.intra_rank, options.one_gpu_visible);
  return {.device = view.is_amd ? "cpu" : view.device(),  // mn itself does not compute on AMD GPUs
          .visible_devices = view.visible_devices,
          .has_amd_gpu = view.is_amd,
          .is_alone = view.is_alone,
          .threads = threads_within(binding.cores, rank.here.intra_size, cpu_quota(root)),
          .bind_threads = options.bind_threads,
          .nic = binding.nic,
          .nic_port = options.bind_nic ? port_of_nic(binding.nic, root) : "",
          // Programs connect to rank 0 first, and round 2 has tried its address.
          .route = rank.here.inter_size > 1 ? interface_toward(outcome.master.address) : ""};
}

}  // namespace

PreparedStart prepare_start(const ThisRank& rank, const Outcome& outcome) {
  const Options& options = rank.options;
  if (options.bind || !options.cpu_map.empty()) set_affinity_of_this_thread(outcome.binding.cpus);
  if (options.bind_memory) bind_memory_of_this_thread(numa_nodes_of(outcome.binding.cpus));
  PreparedStart prepared;
  if (!options.output.empty()) {
    const Variables& variables = rank.surroundings.variables;
    prepared.output =
        open_output(options.output, {rank.here.rank, batch_job(variables), host_name(), step_of_job(variables)});
  }
  return prepared;
}

void start(const ThisRank& rank, const Outcome& outcome, const PreparedStart& prepared) {
  const Options& options = rank.options;
  Variables variables = rank.surroundings.variables;
  add_exports(variables, rank.here, outcome.master, equipment_of(rank, outcome));
  if (prepared.output) {
    redirect_output(*prepared.output, appends(options.output, options.append, variables), begin_of_step(variables));
  }
  if (options.label) label_output(std::to_string(rank.here.rank) + ": ");
  leave_links(prepared.links, variables);
  if (options.doctor) become_self_test(rank, outcome.verdict.report, variables);
  replace_process(rank.surroundings.program, rank.surroundings.arguments, variables);
}

}  // namespace mn::launcher
