/// The rule for a slow rank, shared by warnings while a job runs and findings of its report.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

namespace mn {

/// The median of `values`, at least one. Of an even number the lower middle: of two ranks the faster is the standard.
[[nodiscard]] inline double lower_median(std::vector<double> values) {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// True if a rank with `seconds` per step delays ranks with the median `median`: a quarter longer, and at least 1 ms.
[[nodiscard]] inline bool is_slow_rank(double seconds, double median) {
  return seconds > 1.25 * median && seconds > median + 0.001;
}

}  // namespace mn
