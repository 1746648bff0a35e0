/// The checks: pure functions that take the facts of a job and return findings. check_table.cpp runs the checks.
///
/// To add a check, write a function in a file of this folder, declare it below, and add a row to check_table.cpp and a
/// line to docs/launcher.md.
#pragma once

#include <string>
#include <vector>

#include "checks/findings.hpp"

namespace mn::launcher {

/// Runs the checks in the order of the table, except those that job.skip names. Returns all findings.
[[nodiscard]] Findings run_checks(const JobFacts& job);

/// The names of all checks, with those of --node-check alone. Several checks may share a name.
[[nodiscard]] std::vector<std::string> check_names();

using Check = Findings(const JobFacts& job);

// Where the ranks run, in placement.cpp.
Check check_sources, check_task_count, check_distribution, check_arguments, check_folder;
Check check_affinity, check_room, check_gpu_affinity, check_cpu_time;
/// Checks that --cpu-map has a list of CPUs for each rank of a node (`entries` lists). Also runs with --check off.
[[nodiscard]] Findings check_cpu_map(const JobFacts& job, std::size_t entries);

// The program, its libraries and its files, in software.cpp.
Check check_program, check_unresolved, check_libraries, check_mpi, check_mpiexec, check_nccl, check_files;
Check check_environment;

// Python and its packages, in python.cpp.
Check check_python;

// Kernel, memory, processors, clocks and users, in system.cpp.
Check check_memlock, check_shm, check_limits, check_cma, check_cpu, check_clock, check_machines, check_user;
Check check_temporary_folder, check_output_folder;

// Addresses, connections, and ports of network cards, in network.cpp.
Check check_address, check_subnet, check_connections, check_fabric;

// GPUs and their driver, in devices.cpp; broken GPUs and links between GPUs, in gpu_health.cpp.
Check check_devices, check_gpu_counts, check_driver, check_cuda_version, check_gpu_code, check_gpu_models;
Check check_gpu_modes, check_gpu_visibility, check_gpu_health;

}  // namespace mn::launcher
