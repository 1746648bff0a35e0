#include "start/start.hpp"

#include <cerrno>

#include <sys/mman.h>
#include <unistd.h>

#include <mn/core/cpus.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/net/interfaces.hpp>

#include "bind/cpu_set.hpp"
#include "bind/memory.hpp"
#include "facts/find_program.hpp"
#include "facts/gpu/gpu_view.hpp"
#include "facts/ports.hpp"
#include "start/exec.hpp"
#include "start/exports.hpp"
#include "start/labels.hpp"
#include "start/output.hpp"

namespace mn::launcher {
namespace {

/// The report of thousands of ranks is too long for a variable: the self test reads it from this descriptor.
int file_with(const std::string& report) {
  const int file = memfd_create("mn-doctor-report", 0);
  std::size_t written = 0;
  while (file >= 0 && written < report.size()) {
    const ssize_t bytes = write(file, report.data() + written, report.size() - written);
    if (bytes < 0 && errno != EINTR) break;
    if (bytes > 0) written += static_cast<std::size_t>(bytes);
  }
  if (file < 0 || written < report.size() || lseek(file, 0, SEEK_SET) != 0) {
    throw Error(with_errno("--doctor: cannot keep the report of the checks in memory", errno));
  }
  return file;
}

[[noreturn]] void start_self_test(const ThisRank& rank, const std::string& report, const Prepared& prepared,
                                  Variables& variables) {
  const std::string path = path_of_self_test();
  const auto program = find_program(path, rank.surroundings.folder, executable_path().parent_path(), "");
  std::vector<std::string> arguments = {path};
  if (rank.options.json) arguments.emplace_back("--json");
  for (const auto& [option, file] : {std::pair("--save", rank.options.save),
                                     {"--against", rank.options.against},
                                     {"--history", rank.options.history}}) {
    if (!file.empty()) arguments.insert(arguments.end(), {option, file});
  }
  if (rank.here.rank == 0) variables.set("MN_DOCTOR_REPORT_FD", std::to_string(file_with(report)));
  leave_links(prepared.links, variables);
  replace_process(program, arguments, variables);
}

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
  return {.device = view.is_amd ? "cpu" : view.device(),  // mn itself does not compute on AMD's
          .visible_devices = view.visible_devices,
          .has_amd_gpu = view.is_amd,
          .is_alone = view.is_alone,
          .threads = threads_within(binding.cores, rank.here.intra_size, cpu_quota(root)),
          .bind_threads = options.bind_threads,
          .nic = binding.nic,
          .nic_port = options.bind_nic ? port_of_nic(binding.nic, root) : "",
          // Programs connect to rank 0 first, and the comparison has tried its address.
          .route = rank.here.inter_size > 1 ? interface_toward(outcome.master.address) : ""};
}

}  // namespace

std::string path_of_self_test() { return (executable_path().parent_path() / kSelfTest).string(); }

Prepared prepare_start(const ThisRank& rank, const Outcome& outcome) {
  const Options& options = rank.options;
  if (options.bind || !options.cpu_map.empty()) set_affinity_of_this_thread(outcome.binding.cpus);
  if (options.bind_memory) bind_memory_of_this_thread(numa_nodes_of(outcome.binding.cpus));
  Prepared prepared;
  if (!options.output.empty()) {
    const Variables& variables = rank.surroundings.variables;
    prepared.output =
        open_output(options.output, {rank.here.rank, batch_job(variables), host_name(), step_of_job(variables)});
  }
  return prepared;
}

void start(const ThisRank& rank, const Outcome& outcome, const Prepared& prepared) {
  const Options& options = rank.options;
  Variables variables = rank.surroundings.variables;
  add_exports(variables, rank.here, outcome.master, equipment_of(rank, outcome));
  if (prepared.output) {
    redirect_output(*prepared.output, appends(options.output, options.append, variables), begin_of_step(variables));
  }
  if (options.label) label_output(std::to_string(rank.here.rank) + ": ");
  if (options.doctor) start_self_test(rank, outcome.verdict.report, prepared, variables);
  leave_links(prepared.links, variables);
  replace_process(rank.surroundings.program, rank.surroundings.arguments, variables);
}

}  // namespace mn::launcher
