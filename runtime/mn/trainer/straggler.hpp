/// Which ranks are persistently slower than the others.
#pragma once

#include <cstddef>
#include <vector>

namespace mn {

/// Judges windows of steps. A rank is slow in a window if it computes for more than kFactor times the ranks' lower
/// median, and kLeast longer.
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

  /// `seconds` has one value for each rank: its time for a step of the window. Returns the ranks that have now been
  /// slow in kWindows windows in a row; a rank returns again only after a window in which it was not slow.
  [[nodiscard]] std::vector<Straggler> add(const std::vector<double>& seconds);

 private:
  std::vector<int> slow_windows_;  // in a row, by rank
};

/// Of an even number of values the lower of the two in the middle. `values` is not empty.
[[nodiscard]] double lower_median(std::vector<double> values);

}  // namespace mn
