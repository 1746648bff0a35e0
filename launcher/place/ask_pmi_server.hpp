/// A client of the job's PMI server. PMI-1 is the line protocol of MPICH's and Intel MPI's mpiexec.hydra and of Flux.
///
/// mnlaunch needs PMI-1 because these launchers offer nothing else: on several nodes (under Flux always) no variable
/// tells which ranks share a node, and only the PMI-1 server carries addresses between nodes. For a job that variables
/// describe completely (needs_pmi_server()), mnlaunch sends no message to the server and leaves no process behind.
///
/// The program may use the same socket later, as MPI_Init does. If a process has sent a message and ends without
/// "finalize", Hydra counts the process as crashed and ends the job. This is right for a program that called MPI_Init,
/// but wrong for a program without MPI after mnlaunch has sent messages. So the destructor of the board leaves a relay
/// process behind, which sends "finalize" for a program that has sent no message.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

/// Returns the node of each rank. `mapping` is a text such as "(vector,(0,2,4),(2,1,2))", which means 2 nodes from node
/// 0 on with 4 ranks each, then 1 node from node 2 on with 2 ranks. The blocks repeat until all ranks have a node. No
/// value if the text is malformed.
[[nodiscard]] std::optional<std::vector<int>> nodes_of_mapping(std::string_view mapping, int size);

/// Asks the server at the socket PMI_FD. The result has no board if the server does not answer in PMI-1, or the kernel
/// is older than Linux 5.3. The server does not know the names of other nodes, so their names in ServerJob::hosts are
/// "node-N". A fence waits for other ranks for `patience`. Throws UsageError if a variable of the server is missing.
[[nodiscard]] JobServer ask_pmi_server(const Variables& variables, std::chrono::milliseconds patience);

}  // namespace mn::launcher
