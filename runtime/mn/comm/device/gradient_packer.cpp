#include <mn/comm/device/gradient_packer.hpp>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace mn {

std::vector<GradientPacker::Group> GradientPacker::group_by_dtype(std::span<const BufferView> gradients) {
  std::vector<Group> groups;
  for (const BufferView& gradient : gradients) {
    // An empty gradient may have a null address, which would look like a gap.
    if (gradient.count == 0) continue;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& each) { return each.front().dtype == gradient.dtype; });
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->push_back(gradient);
  }
  return groups;
}

bool GradientPacker::is_contiguous(const Group& group) {
  for (std::size_t i = 1; i < group.size(); ++i) {
    if (static_cast<std::byte*>(group[i - 1].data) + group[i - 1].bytes() != group[i].data) return false;
  }
  return true;
}

BufferView GradientPacker::joined(const Group& group) {
  assert(!group.empty());
  BufferView whole = group.front();
  for (std::size_t i = 1; i < group.size(); ++i) whole.count += group[i].count;
  return whole;
}

BufferView GradientPacker::pack(const Group& group) {
  BufferView whole = joined(group);
  // Never shrinks: the next training step packs the same gradients. The alignment of doubles suits every dtype.
  scratch_.resize(std::max(scratch_.size(), (whole.bytes() + sizeof(double) - 1) / sizeof(double)));
  whole.data = scratch_.data();
  auto* to = reinterpret_cast<std::byte*>(scratch_.data());
  for (const BufferView& gradient : group) {
    std::memcpy(to, gradient.data, gradient.bytes());
    to += gradient.bytes();
  }
  return whole;
}

void GradientPacker::unpack(const Group& group) const {
  const auto* from = reinterpret_cast<const std::byte*>(scratch_.data());
  for (const BufferView& gradient : group) {
    std::memcpy(gradient.data, from, gradient.bytes());
    from += gradient.bytes();
  }
}

}  // namespace mn
