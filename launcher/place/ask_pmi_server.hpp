/// A client of the job's PMI-1 server. PMI-1 is the line protocol of Flux and of mpiexec.hydra (MPICH and Intel MPI).
///
/// mnlaunch needs PMI-1 for jobs on several nodes (under Flux for all jobs). No environment variable of these launchers
/// tells which ranks share a node, and only the server can carry addresses from node to node. If variables describe the
/// job completely (see needs_pmi_server()), mnlaunch sends no message to the server and leaves no process behind.
///
/// The program may use the same socket later, as MPI_Init does. If a process sends a message and ends without
/// "finalize", Hydra assumes a crash and ends the job, wrongly if only mnlaunch has sent messages. So the destructor of
/// the board (Board) leaves a relay process behind. The relay sends "finalize" if the program ends without a message.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

/// Returns the node of each rank; no value for a malformed text. The blocks of "(vector,(0,2,4),(2,1,2))" repeat: from
/// node 0 on, 2 nodes with 4 ranks each; from node 2 on, 1 node with 2 ranks.
[[nodiscard]] std::optional<std::vector<int>> nodes_of_mapping(std::string_view mapping, int size);

/// Asks the PMI server at the socket PMI_FD about the job. The result has no board if the server does not speak PMI-1,
/// or the kernel is older than Linux 5.3. Remote nodes are called "node-N". A fence waits for at most `patience`.
/// Throws UsageError if a variable of the server is missing.
[[nodiscard]] JobServer ask_pmi_server(const Variables& variables, std::chrono::milliseconds patience);

}  // namespace mn::launcher
