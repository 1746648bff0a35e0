#include <utility>

#include <mn/core/trace.hpp>

namespace mn {

void Trace::add(const Span& span) {
  if (!recording_) return;
  const std::lock_guard lock(mutex_);
  spans_.push_back(span);
}

std::vector<Trace::Span> Trace::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

}  // namespace mn
