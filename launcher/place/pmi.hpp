/// A conversation with MPICH's process manager (Hydra) in PMI-1, its line protocol: who is on which node, and where
/// ranks can be reached. The program can have its own conversation afterwards on the same socket, as MPI_Init does.
///
/// Once spoken to, Hydra counts a process that ends without finalizing as crashed, and ends the others. That is right
/// for a program that has called MPI_Init and wrong for one without MPI. So a process stays behind and waits: if this
/// process, which is the program by then, ends without having spoken to Hydra, it finalizes for it.
/// Where the variables tell all (needs_pmi_server()), nothing is said to Hydra, and no process stays.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/error.hpp>

#include "place/board.hpp"
#include "place/placement.hpp"

namespace mn::launcher {

/// Node of each rank, from "(vector,(0,2,4),(2,1,2))": from node 0 on 2 nodes with 4 ranks each, from node 2 on 1 with
/// 2; the blocks repeat until all ranks have a node. No value if it is malformed.
[[nodiscard]] std::optional<std::vector<int>> nodes_of_mapping(std::string_view mapping, int size);

/// Not every rank came in time.
class PmiTimeout : public Error {
 public:
  using Error::Error;
};

class PmiSession : public Board {
 public:
  /// `fd`: the socket to the server, PMI_FD.
  PmiSession(int fd, std::chrono::milliseconds patience) : fd_(fd), patience_(patience) {}
  ~PmiSession() override;

  /// The server's description of this job; no value if it does not speak PMI-1. It does not know the names of other
  /// nodes.
  [[nodiscard]] std::optional<ServerJob> read_job(int rank, int size);

  void put(const std::string& key, const std::string& text) override;
  /// Throws PmiTimeout.
  void fence() override;
  [[nodiscard]] std::optional<std::string> get(int rank, const std::string& key) override;

 private:
  /// Sends "cmd=COMMAND"; the answer's line, empty if there is none in time.
  [[nodiscard]] std::string ask(const std::string& command, std::chrono::milliseconds patience);
  [[nodiscard]] std::string ask(const std::string& command) { return ask(command, std::chrono::seconds(5)); }
  [[nodiscard]] std::optional<std::string> get_text(const std::string& key);
  [[nodiscard]] std::string key_of(int rank, const std::string& key) const;
  void begin_generation();

  int fd_;
  std::chrono::milliseconds patience_;
  int rank_ = 0;
  int generation_ = 0;  ///< how many processes of this rank came before: what they put stays
  std::string space_;   ///< the job's space of keys: no other job's
  bool has_spoken_ = false;
};

}  // namespace mn::launcher
