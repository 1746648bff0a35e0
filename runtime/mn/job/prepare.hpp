/// What a process settles before it is a member of a job.
#pragma once

#include <chrono>

namespace mn {

/// glibc's malloc keeps freed blocks of up to 32 MiB, unless the environment sets malloc's variables.
void keep_freed_memory();
/// Before MPI_Init. Throws UsageError below torchrun, whose workers MPI does not know, and in a Slurm step that gives
/// MPI no PMIx server.
void check_launcher();
/// After MPI_Init, with the size of MPI_COMM_WORLD. Throws UsageError where MPI started this process alone, but its
/// variables say that it is one of several ranks: each would be a job of its own.
void check_size(int size);
[[nodiscard]] bool has_started_mpi();
/// With MPI_THREAD_MULTIPLE where MPI has it.
void start_mpi(int& argc, char**& argv);
/// MN_PEER_TIMEOUT or its default; 0: no monitor. Throws UsageError for any other text.
[[nodiscard]] std::chrono::seconds peer_timeout();

}  // namespace mn
