/// The checks: one small pure function each, grouped by what they look at. Each has a line in check_table.cpp.
#pragma once

#include <string>
#include <vector>

#include "checks/findings.hpp"
#include "checks/job_facts.hpp"

namespace mn::launcher {

/// Every check of check_table.cpp that `job.choice` leaves in, in the table's order.
[[nodiscard]] Findings run_checks(const JobFacts& job);

/// The names under which findings are reported, each once.
[[nodiscard]] std::vector<std::string> check_names();

// placement.cpp: who runs where.
[[nodiscard]] Findings check_sources(const JobFacts& job);       ///< sources that contradict each other
[[nodiscard]] Findings check_task_count(const JobFacts& job);    ///< every rank counts the same ranks
[[nodiscard]] Findings check_distribution(const JobFacts& job);  ///< as many ranks on each node
[[nodiscard]] Findings check_arguments(const JobFacts& job);     ///< one command line
[[nodiscard]] Findings check_folder(const JobFacts& job);        ///< one current folder
[[nodiscard]] Findings check_affinity(const JobFacts& job);      ///< no CPU has several ranks bound to it
[[nodiscard]] Findings check_room(const JobFacts& job);          ///< CPU masks with room for all threads
[[nodiscard]] Findings check_gpu_affinity(const JobFacts& job);  ///< CPUs near the GPU
[[nodiscard]] Findings check_cpu_map(const JobFacts& job,
                                     std::size_t entries);   ///< for --cpu-map; not a line of the table
[[nodiscard]] Findings check_cpu_time(const JobFacts& job);  ///< control groups with time for all threads

// program.cpp: what runs.
[[nodiscard]] Findings check_program(const JobFacts& job);
[[nodiscard]] Findings check_unresolved(const JobFacts& job);
[[nodiscard]] Findings check_libraries(const JobFacts& job);
[[nodiscard]] Findings check_mpi(const JobFacts& job);  ///< the program's MPI and the launcher belong together
[[nodiscard]] Findings check_mpiexec(const JobFacts& job);
[[nodiscard]] Findings check_nccl(const JobFacts& job);
[[nodiscard]] Findings check_files(const JobFacts& job);
[[nodiscard]] Findings check_environment(const JobFacts& job);

// system.cpp: kernel, memory, processors, clocks, users.
[[nodiscard]] Findings check_memlock(const JobFacts& job);
[[nodiscard]] Findings check_shm(const JobFacts& job);
[[nodiscard]] Findings check_limits(const JobFacts& job);
[[nodiscard]] Findings check_cma(const JobFacts& job);  ///< copies between processes (cross-memory attach)
[[nodiscard]] Findings check_cpu(const JobFacts& job);
[[nodiscard]] Findings check_clock(const JobFacts& job);
[[nodiscard]] Findings check_machines(const JobFacts& job);  ///< no machine counts as two nodes
[[nodiscard]] Findings check_user(const JobFacts& job);
[[nodiscard]] Findings check_temporary_folder(const JobFacts& job);
[[nodiscard]] Findings check_output_folder(const JobFacts& job);

// network.cpp: addresses and ports.
[[nodiscard]] Findings check_address(const JobFacts& job);
[[nodiscard]] Findings check_subnet(const JobFacts& job);
[[nodiscard]] Findings check_connections(const JobFacts& job);

// fabric.cpp: ports of network cards.
[[nodiscard]] Findings check_fabric(const JobFacts& job);

// gpu.cpp: devices and their driver.
[[nodiscard]] Findings check_devices(const JobFacts& job);
[[nodiscard]] Findings check_gpu_counts(const JobFacts& job);
[[nodiscard]] Findings check_driver(const JobFacts& job);
[[nodiscard]] Findings check_cuda_version(const JobFacts& job);
[[nodiscard]] Findings check_gpu_code(const JobFacts& job);
[[nodiscard]] Findings check_gpu_models(const JobFacts& job);
[[nodiscard]] Findings check_gpu_modes(const JobFacts& job);
[[nodiscard]] Findings check_gpu_visibility(const JobFacts& job);

// gpu_health.cpp: broken GPUs and links between them.
[[nodiscard]] Findings check_gpu_health(const JobFacts& job);

}  // namespace mn::launcher
