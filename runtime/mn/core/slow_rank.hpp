/// The rule by which a rank counts as slow. The warnings of a running job and the job's report both use this rule.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

namespace mn {

/// The median of `values`, which must have at least one number. The median of an even number of values is the lower of
/// the two middle values. Therefore, of two ranks, the faster rank sets the standard.
[[nodiscard]] inline double lower_median(std::vector<double> values) {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// True if a rank that takes `seconds` for a step is slow: it takes over a quarter longer, and also over 1 ms longer,
/// than `median`, the median of all ranks' times.
[[nodiscard]] inline bool is_slow_rank(double seconds, double median) {
  return seconds > 1.25 * median && seconds > median + 0.001;
}

}  // namespace mn
