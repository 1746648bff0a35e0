/// Prepares a process before it joins a job.
#pragma once

#include <chrono>

namespace mn {

/// Makes glibc's malloc keep freed blocks of up to 32 MiB, unless the environment sets malloc's options.
void keep_freed_memory();
/// Call this before MPI_Init. Throws UsageError under torchrun, and in a Slurm step without a PMIx server for MPI.
void check_launcher();
/// Call this after MPI_Init. Throws UsageError if MPI started this process alone, but variables promise more ranks.
void check_size(int size);
[[nodiscard]] bool has_started_mpi();
/// Initializes MPI, with MPI_THREAD_MULTIPLE if MPI supports it.
void start_mpi(int& argc, char**& argv);
/// The value of MN_PEER_TIMEOUT, or its default; 0 means no peer monitor. Throws UsageError if the value is malformed.
[[nodiscard]] std::chrono::seconds peer_timeout();

}  // namespace mn
