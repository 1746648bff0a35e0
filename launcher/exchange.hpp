/// How the launchers of a job tell each other what they found, over PMIx, before any program starts.
///
/// Three meetings (fences): addresses, where there are several nodes; facts; the verdict of rank 0. Everything is put
/// before a fence and read after it. Cost: facts of a node are at most 16 KiB, of a rank with eight GPUs below 1 KiB.
/// At 4,096 ranks on 512 nodes that is 512 x 16 KiB + 4,096 x 1 KiB = 12 MiB, which each node's server receives once
/// (0.1 s at 1 Gbit/s) and rank 0 alone reads in full: 4,608 reads from its own server. Every other rank reads the
/// facts of its node's ranks, and the names of all ranks' nodes, which its server has from the start.
#pragma once

#include <optional>
#include <string>

#include "check_failed.hpp"
#include "facts/facts.hpp"
#include "place/placement.hpp"
#include "place/pmix.hpp"

namespace mn::launcher {

class Exchange {
 public:
  /// `session` must outlive this.
  Exchange(PmixSession& session, const Placement& here) : session_(session), here_(here) {}

  /// Puts `facts` under `topic` for all ranks to read after the next meet().
  void tell(const std::string& topic, const Facts& facts);
  /// Waits for all ranks. Throws CheckError that names the missing ranks and their hosts when the session's patience
  /// ends.
  void meet();
  /// What `rank` told. Throws CheckError if nothing, DataError if that is no facts.
  [[nodiscard]] Facts hear(int rank, const std::string& topic) const;

 private:
  PmixSession& session_;
  const Placement& here_;
};

/// Shortens `facts` of a node to 16 KiB: environment values become hashes if need be.
void limit_size(Facts& facts);

}  // namespace mn::launcher
