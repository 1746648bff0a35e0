/// The checks: pure functions from the facts of a job to findings. check_table.cpp runs them.
///
/// To add a check, write a function in a file of this folder, declare it below, and add a row to check_table.cpp and a
/// line to docs/launcher.md.
#pragma once

#include <string>
#include <vector>

#include "checks/findings.hpp"

namespace mn::launcher {

/// Runs the checks of the table in order, without the checks in job.skip.
[[nodiscard]] Findings run_checks(const JobFacts& job);

/// The names of all checks, as findings show them. Each name is listed once.
[[nodiscard]] std::vector<std::string> check_names();

using Check = Findings(const JobFacts& job);

// Checks in placement.cpp, of where the ranks run.
Check check_sources, check_task_count, check_distribution, check_arguments, check_folder;
Check check_affinity, check_room, check_gpu_affinity, check_cpu_time;
/// This check is not in the table of checks, because it runs with --check off, too. `entries`: number of lists of CPUs
/// in --cpu-map.
[[nodiscard]] Findings check_cpu_map(const JobFacts& job, std::size_t entries);

// Checks in software.cpp, of the program, its libraries and files.
Check check_program, check_unresolved, check_libraries, check_mpi, check_mpiexec, check_nccl, check_files;
Check check_environment;

// Checks in system.cpp, of kernel, memory, processors, clocks and users.
Check check_memlock, check_shm, check_limits, check_cma, check_cpu, check_clock, check_machines, check_user;
Check check_temporary_folder, check_output_folder;

// Checks in network.cpp, of addresses, connections, and ports of network cards.
Check check_address, check_subnet, check_connections, check_fabric;

// Checks in devices.cpp, of GPUs and their driver, and in gpu_health.cpp, of broken GPUs and links between GPUs.
Check check_devices, check_gpu_counts, check_driver, check_cuda_version, check_gpu_code, check_gpu_models;
Check check_gpu_modes, check_gpu_visibility, check_gpu_health;

}  // namespace mn::launcher
