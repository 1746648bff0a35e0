/// A client's connection to the job's PMIx server, through a libpmix that is loaded at run time.
///
/// If a client's connection ends, the server no longer counts the rank in fences, and MPI_Init of the program would
/// hang. PMIx 3 servers always behave like this. Later servers do if they see the end of the connection before the
/// client's message that it has finalized. PmixSession therefore keeps the connection open, unused, until the program
/// ends.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/watchdog.hpp>

#include "place/placement.hpp"
#include "place/pmix_library.hpp"

namespace mn::launcher {

class PmixSession : public Board {
 public:
  /// Loads the first libpmix of `libraries` that loads, and connects. Throws PmixError if none loads or no server
  /// answers. libpmix waits forever for a server that hangs, so a call that takes longer than `patience` prints a line
  /// and ends the process with exit status 78.
  PmixSession(const std::vector<std::filesystem::path>& libraries, std::chrono::milliseconds patience);
  ~PmixSession() override;

  [[nodiscard]] const ServerJob& job() const noexcept { return job_; }

  void put(const std::string& key, const std::string& text) override;
  /// Throws FenceTimeout after `patience`. After that, the session can only be destroyed.
  void fence() override;
  [[nodiscard]] std::optional<std::string> get(int rank, const std::string& key) override;

 private:
  /// Makes one try of a fence. Throws FenceTimeout that names the absent ranks.
  [[nodiscard]] pmix::Status fence_once();
  [[nodiscard]] ServerJob read_job() const;
  void begin_generation();
  [[nodiscard]] std::vector<int> ranks_that_never_came() const;

  std::chrono::milliseconds patience_;
  std::unique_ptr<PmixLibrary> library_;
  Watchdog watchdog_;
  ServerJob job_;
  /// Prefix of all keys of this process. Values of an earlier process of this rank stay in the servers' and clients'
  /// stores, under a different prefix.
  std::string prefix_;
  int fences_ = 0;
  bool abandoned_ = false;
};

/// The shared-memory store of PMIx 3 and 4 servers ("ds21") has a lock for each rank of the node. A client takes a lock
/// that is marked free, and never frees the lock. The program is its rank's second client: it would find no free lock,
/// and fail ("getting local rank failed" in MPI_Init). This function marks all locks as free. That is safe while
/// clients hold locks: two clients with one lock only wait for each other. Returns false if a store's locks have an
/// unexpected layout.
[[nodiscard]] bool free_locks_of_store();

}  // namespace mn::launcher
