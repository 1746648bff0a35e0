/// Which ranks are persistently slower than the others.
#pragma once

#include <cstddef>
#include <vector>

namespace mn {

/// Judges windows of steps. A rank is slow in a window if it computes for more than kFactor times the median of the
/// ranks (of an even number, the lower of the two in the middle) and kLeast longer.
class StragglerDetector {
 public:
  static constexpr double kFactor = 1.25;
  static constexpr double kLeast = 0.001;  // s
  static constexpr int kWindows = 3;

  struct Straggler {
    std::size_t rank;
    double seconds;  ///< in the last window
    double median;   ///< of the ranks, then
  };

  /// One value for each rank: what a step of the window took it. Returns those that have now been slow in kWindows
  /// windows in a row; again only after a window in which they were not.
  [[nodiscard]] std::vector<Straggler> add(const std::vector<double>& seconds);

 private:
  std::vector<int> slow_windows_;  // in a row, by rank
};

/// The lower median. `values` is not empty.
[[nodiscard]] double lower_median(std::vector<double> values);

}  // namespace mn
