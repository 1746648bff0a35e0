/// Which samples of a step each rank takes: as many as the others, and from as few places as can be.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <mn/data/order.hpp>

namespace mn::data {

/// Samples [first, first + count) of those that a step takes from one lane.
struct LanePiece {
  std::int64_t lane;
  std::int64_t first;
  std::int64_t count;
};

/// The pieces of `rank`; counts[l] is the number of samples that the step takes from lane l. Over the ranks each sample
/// is in one piece, and the numbers of samples of two ranks differ by at most one.
[[nodiscard]] std::vector<LanePiece> divide_lanes(std::span<const std::int64_t> counts, int rank, int ranks);

/// The steps of one epoch, divided between ranks.
class StepDivision {
 public:
  explicit StepDivision(const EpochOrder& order) : order_(order) {}
  StepDivision(const StepDivision&) = delete;
  StepDivision& operator=(const StepDivision&) = delete;

  /// What `rank` takes of positions [first, last): lane by lane, neighbors in storage one after another.
  [[nodiscard]] std::vector<std::int64_t> samples(std::int64_t first, std::int64_t last, int rank, int ranks);

 private:
  const OrderWindow& window(std::int64_t number);

  EpochOrder order_;
  std::deque<OrderWindow> windows_;  // windows of the last step
};

}  // namespace mn::data
