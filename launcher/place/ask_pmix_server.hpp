/// A client of the job's PMIx server, through a libpmix that is loaded at run time.
///
/// mnlaunch keeps the connection open, unused, until the program ends. If mnlaunch closed it, the server might no
/// longer count the rank in fences, and the program's MPI_Init would hang. PMIx 3 servers always behave like this.
/// Later servers do if the end of the connection reaches them before the client's message about finalizing.
#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

/// Asks this process's PMIx server about the job, through the first libpmix that loads. Tries the libpmix of the MPI
/// whose mpiexec started this process, then `folders`, then the dynamic loader's choice. The result has no board if no
/// libpmix loads or no server answers. The board throws PmixError, and FenceTimeout after `patience`; afterwards it can
/// only be destroyed. If a call hangs for longer, the process prints a line and ends with exit status 78.
[[nodiscard]] JobServer ask_pmix_server(const Variables& variables, const std::vector<std::filesystem::path>& folders,
                                        std::chrono::milliseconds patience);

/// Frees all locks in the shared-memory store ("ds21") of a PMIx 3 or 4 server. Each client takes its rank's lock and
/// never frees the lock, so the rank's second client would fail ("getting local rank failed" in MPI_Init). Two clients
/// with one lock only wait for each other. Returns false if a store's locks have an unexpected layout.
[[nodiscard]] bool free_locks_of_store();

}  // namespace mn::launcher
