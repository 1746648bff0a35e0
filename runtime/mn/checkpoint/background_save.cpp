#include <mn/checkpoint/background_save.hpp>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <system_error>
#include <utility>

#include <time.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/blocked_signals.hpp>
#include <mn/core/cpus.hpp>

namespace mn {
namespace {

/// Seconds since construction, without waits of the thread for a CPU.
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

/// (4): takes a small part of a busy CPU, all of an idle one. A low priority would not do: on busy CPUs, a killed
/// process with a thread of low priority cannot end, and keeps its connections and its lock.
class Pace {
 public:
  /// The work begins. On a busy CPU, `rest` seconds of pause follow each second of CPU time. `sleep` sleeps for at most
  /// the given seconds, and returns false to end the pause.
  Pace(double rest, std::function<bool(double)> sleep) : rest_(rest), sleep_(std::move(sleep)) {}
  /// The copy is complete.
  void note_copied() {
    note_queue();
    copied_s_ = cpu_seconds() - used_;
    go_on();
  }
  /// `part` (0 to 1) of the writing is complete: pauses for this part, and for as large a part of the copy.
  void pause(double part) {
    note_queue();
    const double due = rest_ * (cpu_seconds() - used_ + part * copied_s_);
    const OwnTime rest;
    while (wanted_ > 0 && rest.seconds() < due && sleep_(due - rest.seconds())) {
    }
    rested_s_ += rest.seconds();
    go_on();
  }
  [[nodiscard]] double rested_s() const noexcept { return rested_s_; }

 private:
  /// The CPU is busy if the thread had to wait. The scheduler prefers a rested thread and lets it wait rarely, so a
  /// wait counts for several pieces of work.
  void note_queue() {
    const bool has_waited = queue_seconds() - queued_ > kWaited * (cpu_seconds() - used_);
    wanted_ = has_waited ? kRemembered : std::max(wanted_ - 1, 0);
  }

  void go_on() {
    used_ = cpu_seconds();
    queued_ = queue_seconds();
  }

  static constexpr double kWaited = 0.1;  // waiting time / CPU time that shows a busy CPU
  static constexpr int kRemembered = 16;  // pieces of work for which a wait counts
  double rest_;
  std::function<bool(double)> sleep_;
  double used_ = cpu_seconds(), queued_ = queue_seconds(), copied_s_ = 0, rested_s_ = 0;
  int wanted_ = 0;
};

// Seconds of pause for each second of CPU time.
constexpr double kPreparationRest = 9;
constexpr double kSaveRest = 199;

}  // namespace

BackgroundSave::~BackgroundSave() { join(); }

void BackgroundSave::start(const std::function<void()>& work) {
  is_ready_ = false;
  const auto run = [this, work] {
    const OwnTime time;
    work();
    save_s_ += time.seconds();
    is_ready_ = true;
  };
  const BlockedSignals blocked;
  try {
    thread_ = std::thread(run);
  } catch (const std::system_error&) {  // no thread can start: the caller does the urgent work
    hand_over_ = true;
    run();
    hand_over_ = false;
  }
}

void BackgroundSave::join() {
  {
    const std::lock_guard lock(mutex_);
    hand_over_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  hand_over_ = false;
}

/// Sleeps once, not in steps, because each wake-up takes CPU time. Returns false if hand_over_ ended the sleep.
bool BackgroundSave::sleep(double seconds) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return hand_over_.load(); });
}

void BackgroundSave::prepare(const Communicator& comm, const Checkpoint& like) {
  assert(!is_under_way());  // (3)
  join();
  start([this, bytes = bytes_of(slices_of_rank(comm, like)), device = comm.device()] { make_memory(bytes, device); });
}

void BackgroundSave::make_memory(std::uint64_t bytes, Device device) noexcept {
  try {
    Pace pace(kPreparationRest, [this](double seconds) { return sleep(seconds); });
    if (device.type == DeviceType::kCuda) cuda_set_device(device.index);
    memory_.reserve(bytes, device);
    while (!hand_over_ && memory_.touch()) pace.pause(0);
  } catch (const std::exception&) {  // the save will report that there is no memory
  }
}

void BackgroundSave::begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint) {
  assert(!is_under_way());  // (3)
  join();
  const OwnTime time;
  auto save = std::make_unique<CheckpointSave>(comm, path, checkpoint);
  save->copy_first(memory_);
  save_s_ = time.seconds();
  is_root_ = comm.rank() == 0;
  is_collected_ = is_copied_ = false;
  save_ = std::move(save);
  start([this] { copy_and_write(); });
}

void BackgroundSave::copy_and_write() {
  const OwnTime time;
  Pace pace(kSaveRest, [this](double seconds) { return sleep(seconds); });
  save_->copy_rest();
  copy_s_ = time.seconds();
  is_copied_ = true;
  is_copied_.notify_all();
  pace.note_copied();
  static_cast<void>(save_->write(hand_over_, [&](double part) { pace.pause(part); }));
  save_s_ -= pace.rested_s();
}

void BackgroundSave::wait_for_copy() { is_copied_.wait(false); }

bool BackgroundSave::advance(const std::function<void()>& after_commit) {
  assert(is_under_way());
  join();
  if (is_collected_) {
    std::exchange(save_, nullptr)->finish();
    return true;
  }
  const OwnTime time;
  save_->write();  // the rest of the shard
  save_s_ += time.seconds();
  save_->collect();
  is_collected_ = true;
  if (is_root_) {
    start([this, after_commit] {
      if (save_->commit_on_root() && after_commit) after_commit();
    });
  }
  return false;
}

void BackgroundSave::commit() {
  while (!advance()) {
  }
}

}  // namespace mn
