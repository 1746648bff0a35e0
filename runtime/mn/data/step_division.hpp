/// Divides the samples of a step: equal counts for all ranks, and few places in storage for each rank.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <mn/data/order.hpp>

namespace mn::data {

/// Samples [first, first + count) of the samples that a step takes from one lane.
struct LanePiece {
  std::int64_t lane;
  std::int64_t first;
  std::int64_t count;
};

/// The pieces of `rank`; a step takes counts[l] samples from lane l. Over all ranks each sample is in exactly one
/// piece, and two ranks' numbers of samples differ by at most one.
[[nodiscard]] std::vector<LanePiece> divide_lanes(std::span<const std::int64_t> counts, int rank, int ranks);

/// The steps of one epoch, divided between ranks.
class StepDivision {
 public:
  explicit StepDivision(const EpochOrder& order) : order_(order) {}
  StepDivision(const StepDivision&) = delete;
  StepDivision& operator=(const StepDivision&) = delete;

  /// The samples of `rank` in positions [first, last): lane by lane, neighbors in storage one after another.
  [[nodiscard]] std::vector<std::int64_t> samples(std::int64_t first, std::int64_t last, int rank, int ranks);

 private:
  const OrderWindow& window(std::int64_t number);

  EpochOrder order_;
  std::deque<OrderWindow> windows_;  // windows of the last step
};

}  // namespace mn::data
