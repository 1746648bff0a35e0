/// How the launchers of a job exchange facts, over PMIx, before any program starts.
///
/// A rank puts facts under a key, a fence waits for all ranks, and every rank can then get what any rank put. There are
/// three fences at most: addresses, where there are several nodes; facts; the verdict of rank 0.
///
/// Cost: facts of a node are at most 16 KiB, of a rank with eight GPUs below 1 KiB. At 4,096 ranks on 512 nodes that is
/// 512 x 16 KiB + 4,096 x 1 KiB = 12 MiB, which each node's server receives once (0.1 s at 1 Gbit/s) and rank 0 alone
/// reads in full: 4,608 reads from its own server. Every other rank reads the facts of its node's ranks, and the names
/// of all ranks' nodes, which its server has from the start.
#pragma once

#include <string>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "facts/facts_json.hpp"
#include "place/placement.hpp"
#include "place/pmix.hpp"

namespace mn::launcher {

class Exchange {
 public:
  /// `session` and `here` must outlive this. The placement has a layout, as all that PMIx servers describe.
  Exchange(PmixSession& session, const Placement& here) : session_(session), here_(here) {}

  /// Makes `facts` readable by all ranks after the next fence().
  void put(const std::string& key, const nlohmann::json& facts);
  /// Waits for all ranks. Throws CheckFailed that names the missing ranks and their hosts when the session's patience
  /// ends.
  void fence();
  /// The facts that `rank` put. Throws CheckFailed if it put none, DataError that names the rank and the field if they
  /// are malformed.
  template <typename Facts>
  [[nodiscard]] Facts get(int rank, const std::string& key) const {
    const nlohmann::json document = get_document(rank, key);
    try {
      return document.get<Facts>();
    } catch (const DataError& error) {
      throw DataError(source_of(rank, key) + ": " + error.what());
    }
  }

 private:
  [[nodiscard]] nlohmann::json get_document(int rank, const std::string& key) const;
  [[nodiscard]] std::string source_of(int rank, const std::string& key) const;

  PmixSession& session_;
  const Placement& here_;
};

}  // namespace mn::launcher
