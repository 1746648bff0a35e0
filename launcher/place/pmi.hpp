/// A conversation with MPICH's process manager (Hydra) in PMI-1, its line protocol: who is on which node, and where
/// rank 0 can be reached. The program can have its own conversation afterwards on the same socket, as MPI_Init does.
///
/// Hydra counts a client that ends without finalizing as crashed, and a program without MPI does not finalize. So a
/// second process waits for the end of this one, which is the program by then, and finalizes.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

/// Node of each rank, from "(vector,(0,2,4),(2,1,2))": from node 0 on 2 nodes with 4 ranks each, from node 2 on 1 with
/// 2; the blocks repeat until all ranks have a node. No value if it is malformed.
[[nodiscard]] std::optional<std::vector<int>> nodes_of_mapping(std::string_view mapping, int size);

class PmiSession {
 public:
  /// `fd`: the socket to the server, PMI_FD.
  explicit PmiSession(int fd) : fd_(fd) {}

  /// The server's description of this job; no value if it does not speak PMI-1. The names of other nodes are known
  /// after share_address().
  [[nodiscard]] std::optional<ServerJob> read_job(int rank, int size);

  /// Collective over all ranks: fills in the name of rank 0's node and, on rank 0, of all others. Returns rank 0's
  /// `address`; no value if not all ranks came in time.
  [[nodiscard]] std::optional<std::string> share_address(Placement& here, const std::string& address,
                                                         std::chrono::milliseconds patience);

 private:
  /// Sends "cmd=COMMAND"; the value behind `field` in the answer.
  [[nodiscard]] std::optional<std::string> ask(const std::string& command, const std::string& field,
                                               std::chrono::milliseconds patience = std::chrono::seconds(5));
  [[nodiscard]] std::optional<std::string> get(const std::string& key);
  /// False where the kernel has no way to wait for a process that is not a child (before Linux 5.3).
  [[nodiscard]] bool leave_finalizer() const;

  int fd_;
  std::string space_;  ///< the job's space of keys: no other job's
};

}  // namespace mn::launcher
