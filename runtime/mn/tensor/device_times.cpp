#include <mn/tensor/device_times.hpp>

#include <algorithm>
#include <cassert>

#include <c10/core/impl/VirtualGuardImpl.h>

#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

c10::Event timed_event(Device device) {
  return {current_stream(device).device_type(), c10::EventFlag::BACKEND_DEFAULT};
}

std::unique_ptr<c10::Event> recorded_now(Device device) {
  auto event = std::make_unique<c10::Event>(timed_event(device));
  event->record(current_stream(device));
  return event;
}

/// c10::Event::elapsedTime() would first query both events, and queries take time.
double seconds_between(const c10::Event& begin, const c10::Event& end) {
  const c10::impl::VirtualGuardImpl device(end.device_type());
  return device.elapsedTime(begin.eventId(), end.eventId(), end.device_index()) * 1e-3;
}

}  // namespace

Moment Moment::now(Device device) {
  Moment moment;
  moment.on_host_ = std::chrono::steady_clock::now();
  if (device.type == DeviceType::kCpu) return moment;
  moment.on_device_ = recorded_now(device);
  return moment;
}

double Moment::seconds_since(const Moment& earlier) const {
  if (!on_device_) return std::chrono::duration<double>(on_host_ - earlier.on_host_).count();
  on_device_->synchronize();
  return earlier.on_device_->elapsedTime(*on_device_) * 1e-3;
}

void DeviceTimer::begin() {
  if (ended_ >= spans_.size() && spans_.size() < kSpans) {
    spans_.emplace_back(timed_event(device_), timed_event(device_));
  }
  assert(!spans_.empty() && spans_.size() <= kSpans);  // at most kSpans are kept
  spans_[ended_ % spans_.size()].first.record(current_stream(device_));
  is_open_ = true;
}

void DeviceTimer::end() {
  if (!std::exchange(is_open_, false)) return;
  spans_[ended_++ % spans_.size()].second.record(current_stream(device_));
}

double DeviceTimer::seconds() {
  const auto kept = std::min<std::uint64_t>(ended_, kSpans - (is_open_ ? 1 : 0));
  assert(kept <= spans_.size());
  double sum = 0;
  for (std::uint64_t i = 1; i <= kept; ++i) {
    const auto& [begin, end] = spans_[(ended_ - i) % spans_.size()];
    if (i == 1) end.synchronize();  // the newest span ends last, so all older spans have ended
    sum += seconds_between(begin, end);
  }
  // Newer spans may have overwritten older spans. Therefore each ended span counts with the mean of the kept spans.
  if (kept > 0) seconds_ += sum * static_cast<double>(ended_) / static_cast<double>(kept);
  if (is_open_) std::swap(spans_[0], spans_[ended_ % spans_.size()]);
  ended_ = 0;
  return seconds_;
}

TracedWork::Scope::Scope(TracedWork& work, Device device, const char* name, Trace::Lane lane)
    : work_(work), device_(device), span_{name, lane, {}, {}, 0} {
  if (work_.trace_ == nullptr) return;
  if (device.type == DeviceType::kCpu) {
    span_.begin = Trace::Clock::now();
  } else {
    begin_ = recorded_now(device);
  }
}

TracedWork::Scope::~Scope() {
  if (work_.trace_ == nullptr) return;
  if (begin_ == nullptr) {
    span_.end = Trace::Clock::now();
    work_.trace_->add(span_);
    return;
  }
  const std::lock_guard lock(work_.mutex_);
  work_.enqueued_.push_back({span_, std::move(begin_), recorded_now(device_)});
}

void TracedWork::settle(Device device) {
  const std::lock_guard lock(mutex_);
  if (enqueued_.empty()) return;
  const auto present = recorded_now(device);
  present->synchronize();
  const auto now = Trace::Clock::now();
  const auto host_time = [&](const c10::Event& event) {
    return now - std::chrono::duration_cast<Trace::Clock::duration>(
                     std::chrono::duration<double>(seconds_between(event, *present)));
  };
  for (; !enqueued_.empty() && enqueued_.front().end->query(); enqueued_.pop_front()) {
    Enqueued& each = enqueued_.front();
    each.span.begin = host_time(*each.begin);
    each.span.end = host_time(*each.end);
    trace_->add(each.span);
  }
}

}  // namespace mn
