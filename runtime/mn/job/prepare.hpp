/// What a process settles before it is a member of a job.
#pragma once

#include <chrono>

namespace mn {

/// glibc's malloc keeps freed blocks of up to 32 MiB, unless the environment sets malloc's variables.
void keep_freed_memory();
/// Throws UsageError in a Slurm step that gives MPI no PMIx server.
void check_launcher();
[[nodiscard]] bool has_started_mpi();
/// With MPI_THREAD_MULTIPLE where MPI has it.
void start_mpi(int& argc, char**& argv);
/// MN_PEER_TIMEOUT or its default; 0: no monitor. Throws UsageError for any other text.
[[nodiscard]] std::chrono::seconds peer_timeout();

}  // namespace mn
