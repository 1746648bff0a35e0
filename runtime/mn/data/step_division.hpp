/// Divides the samples of a step between ranks. A lane is a run of neighboring samples (order.cpp).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <mn/data/order.hpp>

namespace mn::data {

/// A rank's samples in a lane: [first, first + count) of the samples that the step takes from the lane, numbered from
/// 0.
struct LanePiece {
  std::int64_t lane;
  std::int64_t first;
  std::int64_t count;
};

/// The pieces of `rank` in a step that takes counts[l] samples from lane l. Each sample is in one piece of one rank,
/// and the numbers of samples of two ranks differ by at most one.
[[nodiscard]] std::vector<LanePiece> divide_lanes(std::span<const std::int64_t> counts, int rank, int ranks);

/// Divides the steps of one epoch between ranks.
class StepDivision {
 public:
  explicit StepDivision(const EpochOrder& order) : order_(order) {}
  StepDivision(const StepDivision&) = delete;
  StepDivision& operator=(const StepDivision&) = delete;

  /// The samples of `rank` in positions [first, last) of the epoch, lane by lane; neighbors in a lane are neighbors in
  /// storage.
  [[nodiscard]] std::vector<std::int64_t> samples(std::int64_t first, std::int64_t last, int rank, int ranks);

 private:
  const OrderWindow& window(std::int64_t number);

  EpochOrder order_;
  std::deque<OrderWindow> windows_;  // the windows of the last step's samples
};

}  // namespace mn::data
