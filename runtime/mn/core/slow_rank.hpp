/// The rule by which a rank counts as slow. The warnings of a running job and the findings in the job's report use the
/// same rule.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

namespace mn {

/// The median of `values`, which has at least one number. For an even number of values, returns the lower of the two
/// middle values, so of two ranks the faster rank is the standard.
[[nodiscard]] inline double lower_median(std::vector<double> values) {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// True if a rank that takes `seconds` per step delays the other ranks, whose median is `median`. This is so if the
/// rank takes over a quarter longer and over 1 ms longer.
[[nodiscard]] inline bool is_slow_rank(double seconds, double median) {
  return seconds > 1.25 * median && seconds > median + 0.001;
}

}  // namespace mn
