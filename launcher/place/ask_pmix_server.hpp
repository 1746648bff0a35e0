/// A client's connection to the job's PMIx server, through a libpmix that is loaded at run time.
///
/// mnlaunch keeps the connection open, unused, until the program ends. If mnlaunch closed the connection, the server
/// might no longer count the rank in fences, and the program's MPI_Init would hang. PMIx 3 servers always behave like
/// this. Later servers behave like this if the end of the connection reaches the server before the client's message
/// about finalizing.
#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

/// Asks this process's PMIx server about the job, through the first libpmix that loads. The order is: the libpmix of
/// the MPI whose mpiexec started this process, a libpmix in `folders`, the dynamic loader's choice. The result has no
/// board if no libpmix loads or no server answers. The functions of the board throw PmixError. A fence throws
/// FenceTimeout after `patience`; afterwards the board can only be destroyed. If any call of libpmix takes longer than
/// `patience`, because the server hangs, the process prints a line and ends with exit status 78.
[[nodiscard]] JobServer ask_pmix_server(const Variables& variables, const std::vector<std::filesystem::path>& folders,
                                        std::chrono::milliseconds patience);

/// Marks all locks in the shared-memory store ("ds21") of a PMIx 3 or 4 server as free. The store has one lock for each
/// rank of the node. A client takes a lock that is marked free, and never frees the lock. Since the program is its
/// rank's second client, the program would find no free lock and fail ("getting local rank failed" in MPI_Init).
/// Freeing a lock that a client holds is safe, because two clients with one lock only wait for each other. Returns
/// false if the locks of a store have an unexpected layout.
[[nodiscard]] bool free_locks_of_store();

}  // namespace mn::launcher
