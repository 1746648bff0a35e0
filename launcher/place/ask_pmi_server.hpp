/// A client of the job's PMI server. PMI-1 is the line protocol of MPICH's and Intel MPI's mpiexec.hydra and of Flux.
///
/// mnlaunch needs PMI-1 because these launchers offer nothing else: on several nodes (under Flux always) no variable
/// tells which ranks share a node, and only the PMI-1 server carries addresses between nodes. For a job that variables
/// describe completely (needs_pmi_server()), mnlaunch sends no message to the server and leaves no process behind.
///
/// The program may use the same socket later, as MPI_Init does. If a process has sent a message and ends without
/// "finalize", Hydra counts the process as crashed and ends the job. This is right for a program that called MPI_Init,
/// but wrong for a program without MPI after mnlaunch has sent messages. So ~PmiSession leaves a relay process behind,
/// which sends "finalize" for a program that has sent no message.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

/// Returns the node of each rank. `mapping` is a text such as "(vector,(0,2,4),(2,1,2))", which means 2 nodes from node
/// 0 on with 4 ranks each, then 1 node from node 2 on with 2 ranks. The blocks repeat until all ranks have a node. No
/// value if the text is malformed.
[[nodiscard]] std::optional<std::vector<int>> nodes_of_mapping(std::string_view mapping, int size);

class PmiSession : public Board {
 public:
  /// `fd`: the socket to the server, the value of PMI_FD.
  PmiSession(int fd, std::chrono::milliseconds patience) : fd_(fd), patience_(patience) {}
  ~PmiSession() override;

  /// The server's description of this job; no value if the server does not answer in PMI-1, or the kernel is older than
  /// Linux 5.3. The server does not know the names of other nodes, so their names in `hosts` are "node-N".
  [[nodiscard]] std::optional<ServerJob> read_job(int rank, int size);

  void put(const std::string& key, const std::string& text) override;
  void fence() override;
  [[nodiscard]] std::optional<std::string> get(int rank, const std::string& key) override;

 private:
  /// Sends "cmd=COMMAND" and returns the line of the answer; empty if no answer comes in time.
  [[nodiscard]] std::string ask(const std::string& command, std::chrono::milliseconds patience);
  [[nodiscard]] std::string ask(const std::string& command) { return ask(command, std::chrono::seconds(5)); }
  [[nodiscard]] std::optional<std::string> get_text(const std::string& key);
  [[nodiscard]] std::string key_of(int rank, const std::string& key) const;
  void begin_generation();

  int fd_;
  std::chrono::milliseconds patience_;
  int rank_ = 0;
  int generation_ = 0;       ///< number of earlier mnlaunch processes of this rank; their values stay on the server
  std::string space_;        ///< name of the job's key-value space, unique to the job
  bool has_spoken_ = false;  ///< the server has answered once, so the rank must finalize
};

}  // namespace mn::launcher
