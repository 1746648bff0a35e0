#include "checks/checks.hpp"

namespace mn::launcher {
namespace {

struct CheckRow {
  const char* name;  ///< also the name of its findings
  Check* run;
};

// Causes stand before their consequences: the user should act on the first printed line.
constexpr CheckRow kChecks[] = {
    {"sources", check_sources},
    {"tasks", check_task_count},
    {"program", check_program},
    {"python", check_python},
    {"unresolved", check_unresolved},
    {"mpi", check_mpi},
    {"libraries", check_libraries},
    {"mpiexec", check_mpiexec},
    {"nccl", check_nccl},
    {"files", check_files},
    {"folder", check_folder},
    {"arguments", check_arguments},
    {"environment", check_environment},
    {"address", check_address},
    {"network", check_subnet},
    {"connect", check_connections},
    {"fabric", check_fabric},
    {"devices", check_devices},
    {"devices", check_gpu_counts},
    {"driver", check_driver},
    {"cuda", check_cuda_version},
    {"cuda", check_gpu_code},
    {"gpu-model", check_gpu_models},
    {"gpu-mode", check_gpu_modes},
    {"gpu-health", check_gpu_health},
    {"gpu-visibility", check_gpu_visibility},
    {"affinity", check_affinity},
    {"affinity", check_room},
    {"affinity", check_cpu_time},
    {"affinity", check_gpu_affinity},
    {"distribution", check_distribution},
    {"memlock", check_memlock},
    {"shm", check_shm},
    {"limits", check_limits},
    {"cma", check_cma},
    {"cpu", check_cpu},
    {"clock", check_clock},
    {"machines", check_machines},
    {"user", check_user},
    {"tmp", check_temporary_folder},
    {"output", check_output_folder},
};

constexpr const char* kNodeChecks[] = {"memory", "mounts"};  // node/node_check.hpp

}  // namespace

Findings run_checks(const JobFacts& job) {
  Findings all;
  for (const auto& [name, run] : kChecks) {
    if (!job.runs(name)) continue;
    Findings findings = run(job);
    if (has_name(job.warn, name)) {
      for (auto& finding : findings) finding.is_error = false;
    }
    append(all, std::move(findings));
  }
  return all;
}

std::vector<std::string> check_names() {
  std::vector<std::string> names(std::begin(kNodeChecks), std::end(kNodeChecks));
  for (const auto& [name, run] : kChecks) {
    if (!has_name(names, name)) names.emplace_back(name);
  }
  return names;
}

}  // namespace mn::launcher
