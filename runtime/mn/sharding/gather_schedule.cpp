#include <mn/sharding/gather_schedule.hpp>

#include <utility>

namespace mn {

void GatherSchedule::begin() {
  if (!present_.empty()) last_ = std::exchange(present_, {});
  follows_ = true;
}

std::optional<std::size_t> GatherSchedule::next_after(std::size_t gather) {
  const std::size_t place = present_.size();
  present_.push_back(gather);
  follows_ = follows_ && place < last_.size() && last_[place] == gather;
  if (!follows_ || place + 1 == last_.size()) return std::nullopt;
  return last_[place + 1];
}

}  // namespace mn
