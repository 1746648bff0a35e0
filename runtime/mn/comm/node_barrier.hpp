/// A barrier between processes that share memory, a microsecond where MPI's takes several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <mn/comm/shared_counter.hpp>

namespace mn {

/// Each rank raises its own counter and waits for the others'.
class NodeBarrier {
 public:
  /// `arrivals[r]` is rank r's counter as this process sees it, for this barrier alone.
  NodeBarrier(std::vector<SharedCounter*> arrivals, int rank)
      : arrivals_(std::move(arrivals)), rank_(static_cast<std::size_t>(rank)) {}

  /// Returns when every rank has called it; what they wrote before is then visible here.
  void arrive_and_wait() {
    arrivals_[rank_]->set(++epoch_);
    for (SharedCounter* each : arrivals_) each->wait_for(epoch_, arrivals_.size());
  }

 private:
  std::vector<SharedCounter*> arrivals_;
  std::size_t rank_;
  std::uint32_t epoch_ = 0;
};

}  // namespace mn
