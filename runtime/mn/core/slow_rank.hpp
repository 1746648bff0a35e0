/// The rule by which a rank counts as slow. The warnings of a running job and the job's report both use this rule.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

namespace mn {

/// The median of `values`, which must have at least one number. If their number is even, returns the lower of the two
/// middle values. Therefore if there are two ranks, the time of the faster rank is the standard.
[[nodiscard]] inline double lower_median(std::vector<double> values) {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// True if a rank that takes `seconds` for a step is slow compared with `median`, the median of the ranks' times. A
/// slow rank takes over a quarter longer and also over 1 ms longer than the median.
[[nodiscard]] inline bool is_slow_rank(double seconds, double median) {
  return seconds > 1.25 * median && seconds > median + 0.001;
}

}  // namespace mn
