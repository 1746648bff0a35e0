#include "start.hpp"

#include <mn/core/environment.hpp>

#include "bind/cpu_set.hpp"
#include "exec.hpp"
#include "exports.hpp"
#include "facts/find_program.hpp"

namespace mn::launcher {
namespace {

[[noreturn]] void start_self_test(const ThisRank& rank, const std::string& report, Variables& variables) {
  const std::string path = path_of_self_test();
  const auto program = find_program(path, rank.surroundings.folder, executable_path().parent_path(), "");
  std::vector<std::string> arguments = {path};
  if (rank.options.json) arguments.emplace_back("--json");
  if (rank.here.rank == 0) variables.set("MN_DOCTOR_REPORT", report);
  replace_process(program, arguments, variables);
}

}  // namespace

std::string path_of_self_test() { return (executable_path().parent_path() / kSelfTest).string(); }

void start(const ThisRank& rank, const Outcome& outcome) {
  const Options& options = rank.options;
  const Binding& binding = outcome.binding;
  Variables variables = rank.surroundings.variables;
  std::string device = "cpu";
  if (binding.gpu >= 0) {
    const auto& gpu = outcome.gpus[static_cast<std::size_t>(binding.gpu)];
    device = "cuda:" + std::to_string(options.one_gpu_visible ? 0 : binding.gpu);
    if (options.one_gpu_visible) variables.set("CUDA_VISIBLE_DEVICES", gpu.uuid);
  }
  if (options.bind) set_affinity_of_this_thread(binding.cpus);
  add_exports(variables, rank.here, outcome.master, device, binding.cores);
  if (!options.output.empty()) redirect_output(options.output, rank.here.rank);
  if (options.doctor) start_self_test(rank, outcome.verdict.report, variables);
  replace_process(rank.surroundings.program, rank.surroundings.arguments, variables);
}

}  // namespace mn::launcher
