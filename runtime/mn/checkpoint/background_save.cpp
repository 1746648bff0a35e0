#include <mn/checkpoint/background_save.hpp>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <utility>

#include <malloc.h>
#include <time.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/blocked_signals.hpp>
#include <mn/core/cpus.hpp>

namespace mn {
namespace {

/// Measures the seconds since the object was made, without the time in which the thread waited for a CPU.
class OwnTime {
 public:
  [[nodiscard]] double seconds() const {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin_;
    return time.count() - (queue_seconds() - queued_);
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double queued_ = queue_seconds();
};

double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// Invariant 3: if the CPU is busy, the writing thread often pauses; if the CPU is idle, the thread never pauses. A low
/// priority instead of pauses would do harm: on busy CPUs, a killed process with a thread of low priority cannot end,
/// and keeps its connections and its lock.
class Pace {
 public:
  /// Make the object when the work begins. If `urgent` is asked to stop, all pauses end, and the work goes on without
  /// pauses.
  explicit Pace(std::stop_token urgent) : urgent_(std::move(urgent)) {}
  /// Called after each piece of work. On a busy CPU, sleeps in proportion to the CPU time of the piece.
  void pause() {
    // A thread that had to wait for the CPU knows that the CPU is busy. But after a pause the scheduler prefers the
    // thread, which then rarely waits. Therefore one wait makes the thread pause after several pieces of work.
    const double worked_s = cpu_seconds() - used_;
    wanted_ = queue_seconds() - queued_ > kWaited * worked_s ? kRemembered : std::max(wanted_ - 1, 0);
    const OwnTime rest;
    if (wanted_ > 0) {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, urgent_, std::chrono::duration<double>(kRest * worked_s), [] { return false; });
    }
    rested_s_ += rest.seconds();
    used_ = cpu_seconds();
    queued_ = queue_seconds();
  }
  [[nodiscard]] double rested_s() const noexcept { return rested_s_; }

 private:
  static constexpr double kRest = 199;    // seconds of pause for each second of CPU time
  static constexpr double kWaited = 0.1;  // waiting time / CPU time that shows a busy CPU
  static constexpr int kRemembered = 16;  // pieces of work after a wait for which the CPU counts as busy
  std::stop_token urgent_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  double used_ = cpu_seconds(), queued_ = queue_seconds(), rested_s_ = 0;
  int wanted_ = 0;
};

/// (4)
bool has_pieces_on_host(const Checkpoint& checkpoint) {
  return !checkpoint.pieces.empty() && checkpoint.pieces.front().elements.is_cpu();
}

}  // namespace

void BackgroundSave::start(const std::function<void(const std::stop_token&)>& work) {
  is_ready_ = false;
  const auto run = [this, work](const std::stop_token& urgent) {
    const OwnTime time;
    work(urgent);
    save_s_ += time.seconds();
    is_ready_ = true;
  };
  const BlockedSignals blocked;
  try {
    thread_ = std::jthread(run);
  } catch (const std::system_error&) {  // no thread can be started: the caller does the work
    std::stop_source urgent;
    urgent.request_stop();
    run(urgent.get_token());
  }
}

void BackgroundSave::prepare(const Communicator& comm, const Checkpoint& like) {
  assert(!is_under_way());  // invariant 2: one save at a time
  join();
  const std::uint64_t copied = has_pieces_on_host(like) ? 0 : bytes_of(slices_of_rank(comm, like));
  start([this, bytes = copied, device = comm.device()](const std::stop_token&) {
    try {
      if (device.type == DeviceType::kCuda) cuda_set_device(device.index);
      memory_.reserve(bytes, device);
    } catch (const std::exception&) {  // the save will report that there is no memory
    }
  });
}

void BackgroundSave::begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint) {
  assert(!is_under_way());  // invariant 2: one save at a time
  join();
  const OwnTime time;
  const bool copies = !has_pieces_on_host(checkpoint);  // (4)
  if (!copies) malloc_trim(0);                          // the page cache needs the memory that training has freed
  auto save = std::make_unique<CheckpointSave>(comm, path, checkpoint);
  copies ? save->copy(memory_) : save->write();
  save_s_ = time.seconds();
  is_root_ = comm.rank() == 0;
  is_collected_ = false;
  save_ = std::move(save);
  start([this](const std::stop_token& urgent) {
    Pace pace(urgent);
    save_->write([&] {  // does nothing if begin() has written already
      if (is_abandoned_) throw SaveError("the save was abandoned");
      pace.pause();
    });
    save_s_ -= pace.rested_s();
  });
}

bool BackgroundSave::advance(const std::function<void()>& after_commit) {
  assert(is_under_way());
  join();
  if (is_collected_) {
    std::exchange(save_, nullptr)->finish();
    return true;
  }
  save_->collect();
  is_collected_ = true;
  if (is_root_) {
    start([this, after_commit](const std::stop_token&) {
      if (save_->commit_on_root() && after_commit) after_commit();
    });
  }
  return false;
}

}  // namespace mn
