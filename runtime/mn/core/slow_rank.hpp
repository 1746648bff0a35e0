/// What a slow rank is: one rule for warnings while a job runs and for the findings of its report.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mn {

/// The median; the lower of the two middle values where their number is even, so that of two ranks the slower is judged
/// by the faster. `values` is not empty.
[[nodiscard]] inline double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Whether a rank that computes for `seconds` in a step keeps ranks waiting whose lower median is `median`: a quarter
/// longer, and 1 ms at least.
[[nodiscard]] inline bool is_slow_rank(double seconds, double median) {
  return seconds > 1.25 * median && seconds > median + 0.001;
}

}  // namespace mn
