#include "tests/support/stand_in_gpu/machine.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/cuda_call.hpp"

namespace mn::stand_in {
namespace {

/// Half of all operations run at once, a few very late.
std::chrono::microseconds delay(std::mt19937& random) {
  const auto scale = static_cast<std::uint64_t>(settings().delay.count());
  const auto dice = random() % 8;
  if (scale == 0 || dice < 4) return {};
  return std::chrono::microseconds(random() % (dice == 7 ? 10 * scale : scale));
}

}  // namespace

Machine& machine() {
  static auto& all = *new Machine;
  return all;
}

bool is_done(const std::vector<Mark>& marks) {
  return std::ranges::all_of(marks, [](const Mark& mark) { return mark.stream->done >= mark.ticket; });
}

Machine::Machine() : seed_(settings().seed) {}

void Machine::reseed(Lock& lock, std::uint64_t seed) {
  for (int device = 0; device < settings().gpus; ++device) drain(lock, device);
  for (const auto& [device, stream] : legacy_) {
    stream->is_destroyed = true;
    stream->changed.notify_all();
  }
  legacy_.clear();
  streams_made_ = 0;
  seed_ = seed;
}

StreamPtr Machine::make_stream(int device, bool is_blocking, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->is_blocking = is_blocking;
  stream->priority = priority;
  std::seed_seq seeds{seed_, static_cast<std::uint64_t>(settings().rank), streams_made_++};
  stream->random.seed(seeds);
  std::erase_if(all_, [](const auto& each) { return each.expired(); });
  all_.push_back(stream);
  std::thread([this, stream] { work(stream); }).detach();
  return stream;
}

cudaStream_t Machine::create_stream(int device, bool is_blocking, int priority) {
  StreamPtr stream = make_stream(device, is_blocking, priority);
  const auto handle = reinterpret_cast<cudaStream_t>(stream.get());
  streams_[handle] = std::move(stream);
  return handle;
}

StreamPtr Machine::find(cudaStream_t stream, int device) {
  if (stream == nullptr || stream == cudaStreamLegacy) {
    StreamPtr& legacy = legacy_[device];
    if (!legacy) legacy = make_stream(device, true, 0);
    return legacy;
  }
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second;
}

void Machine::destroy(cudaStream_t stream) {
  const auto found = streams_.find(stream);
  found->second->is_destroyed = true;
  found->second->changed.notify_all();
  streams_.erase(found);
}

bool Machine::is_legacy(const StreamPtr& stream) const {
  const auto found = legacy_.find(stream->device);
  return found != legacy_.end() && found->second == stream;
}

cudaEvent_t Machine::create_event(int device) {
  auto event = std::make_unique<Event>();
  event->device = device;
  const auto handle = reinterpret_cast<cudaEvent_t>(event.get());
  events_[handle] = std::move(event);
  return handle;
}

Event* Machine::find(cudaEvent_t event) {
  const auto found = events_.find(event);
  return found == events_.end() ? nullptr : found->second.get();
}

std::vector<Mark> Machine::held(int device, bool with_non_blocking) const {
  std::vector<Mark> marks;
  for (const auto& each : all_) {
    const StreamPtr stream = each.lock();
    if (!stream || stream->device != device) continue;
    if (stream->is_blocking || with_non_blocking) marks.push_back({stream, stream->submitted});
  }
  return marks;
}

Mark Machine::enqueue(const StreamPtr& stream, Op op, std::vector<Mark> after) {
  const auto legacy = legacy_.find(stream->device);
  if (is_legacy(stream)) {
    for (Mark& mark : held(stream->device, false)) {
      if (mark.stream != stream) after.push_back(std::move(mark));
    }
  } else if (stream->is_blocking && legacy != legacy_.end()) {
    after.push_back({legacy->second, legacy->second->submitted});
  }
  stream->items.push_back({std::move(op), std::move(after)});
  stream->changed.notify_all();
  return {stream, ++stream->submitted};
}

std::vector<Mark> Machine::pending(const StreamPtr& stream) const {
  if (is_legacy(stream)) return held(stream->device, false);
  return {{stream, stream->submitted}};
}

void Machine::wait(Lock& lock, const std::vector<Mark>& marks) {
  // One after the other, as what is done stays done.
  for (const Mark& mark : marks) {
    mark.stream->changed.wait(lock, [&] { return mark.stream->done >= mark.ticket; });
  }
}

void Machine::work(const StreamPtr& stream) {
  Lock lock(mutex_);
  while (true) {
    stream->changed.wait(lock, [&] { return stream->is_destroyed || !stream->items.empty(); });
    if (stream->items.empty()) return;
    Stream::Item item = std::move(stream->items.front());
    stream->items.pop_front();
    wait(lock, item.after);
    const auto late = delay(stream->random);
    lock.unlock();
    if (late.count() > 0) std::this_thread::sleep_for(late);
    if (context_error() == cudaSuccess) item.op();
    item = {};
    lock.lock();
    ++stream->done;
    stream->changed.notify_all();
  }
}

}  // namespace mn::stand_in
