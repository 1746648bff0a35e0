#include <mn/sharding/unit_layout.hpp>

#include <algorithm>
#include <utility>

namespace mn {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

UnitLayout::UnitLayout(std::vector<std::int64_t> counts, int ranks) : counts_(std::move(counts)), ranks_(ranks) {
  std::int64_t end = 0;
  for (const std::int64_t count : counts_) {
    offsets_.push_back(end);
    end += round_up(count, kAlignment);
  }
  share_ = round_up(round_up(end, ranks) / ranks, kAlignment);
}

UnitLayout::Piece UnitLayout::piece(std::size_t i, int rank) const {
  const std::int64_t first = share_ * rank, last = first + share_;  // the rank's share in the buffer
  const auto within = [&](std::int64_t place) { return std::clamp<std::int64_t>(place - offsets_[i], 0, counts_[i]); };
  const std::int64_t begin = within(first), end = within(last);
  return {begin, end, begin == end ? 0 : offsets_[i] + begin - first};
}

}  // namespace mn
