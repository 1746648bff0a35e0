/// A client's connection to the job's PMIx server, through a libpmix that is loaded at run time.
///  If a client's connection ends, the server no longer counts the rank in fences, and MPI_Init of the program would
/// hang. PMIx 3 servers always behave like this. Later servers do if they see the end of the connection before the
/// client's message that it has finalized. mnlaunch therefore keeps the connection open, unused, until the program
/// ends.
#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

/// Asks this process's PMIx server, through the first libpmix that loads: the one of the MPI whose mpiexec started this
/// process, else one in `folders`, else the one that the dynamic loader finds. The result has no board if no libpmix
/// loads or no server answers. The functions of the board throw PmixError; a fence throws FenceTimeout after
/// `patience`, and the board can then only be destroyed. libpmix waits forever for a server that hangs, so a call of
/// libpmix that takes longer than `patience` prints a line and ends the process with exit status 78.
[[nodiscard]] JobServer ask_pmix_server(const Variables& variables, const std::vector<std::filesystem::path>& folders,
                                        std::chrono::milliseconds patience);

/// The shared-memory store of PMIx 3 and 4 servers ("ds21") has a lock for each rank of the node. A client takes a lock
/// that is marked free, and never frees the lock. The program is its rank's second client: it would find no free lock,
/// and fail ("getting local rank failed" in MPI_Init). This function marks all locks as free. That is safe while
/// clients hold locks: two clients with one lock only wait for each other. Returns false if a store's locks have an
/// unexpected layout.
[[nodiscard]] bool free_locks_of_store();

}  // namespace mn::launcher
