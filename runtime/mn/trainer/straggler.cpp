#include <algorithm>

#include <mn/trainer/straggler.hpp>

namespace mn {

double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<StragglerDetector::Straggler> StragglerDetector::add(const std::vector<double>& seconds) {
  const double median = lower_median(seconds);
  slow_windows_.resize(seconds.size());
  std::vector<Straggler> found;
  for (std::size_t rank = 0; rank < seconds.size(); ++rank) {
    const bool slow = seconds[rank] > kFactor * median && seconds[rank] > median + kLeast;
    slow_windows_[rank] = slow ? slow_windows_[rank] + 1 : 0;
    if (slow_windows_[rank] == kWindows) found.push_back({rank, seconds[rank], median});
  }
  return found;
}

}  // namespace mn
