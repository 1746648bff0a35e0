/// The rule for a slow rank, shared by warnings while a job runs and findings of its report.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

namespace mn {

/// The median of `values`, which must not be empty. Of an even number of values, the lower middle one: of two ranks,
/// the faster rank is the standard.
[[nodiscard]] inline double lower_median(std::vector<double> values) {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// True if a rank with `seconds` of computation per step delays ranks with the lower median `median`: a quarter longer,
/// and at least 1 ms.
[[nodiscard]] inline bool is_slow_rank(double seconds, double median) {
  return seconds > 1.25 * median && seconds > median + 0.001;
}

}  // namespace mn
