#include "checks/checks.hpp"

namespace mn::launcher {
namespace {

using Check = Findings (*)(const JobFacts&);

// Causes before consequences: the first line that is printed should be the one to act on.
constexpr Check kChecks[] = {
    check_sources,
    check_task_count,
    check_program,
    check_unresolved,
    check_mpi,
    check_libraries,
    check_mpiexec,
    check_nccl,
    check_files,
    check_folder,
    check_arguments,
    check_environment,
    check_address,
    check_subnet,
    check_connections,
    check_devices,
    check_gpu_counts,
    check_driver,
    check_cuda_version,
    check_gpu_code,
    check_gpu_models,
    check_gpu_modes,
    check_gpu_health,
    check_gpu_visibility,
    check_affinity,
    check_room,
    check_gpu_affinity,
    check_distribution,
    check_memlock,
    check_shm,
    check_limits,
    check_cma,
    check_cpu,
    check_clock,
    check_machines,
    check_user,
    check_temporary_folder,
    check_output_folder,
};

}  // namespace

Findings run_checks(const JobFacts& job) {
  Findings all;
  for (const Check check : kChecks) append(all, check(job));
  return all;
}

}  // namespace mn::launcher
