#include <chrono>
#include <utility>

#include <sched.h>

#include <mn/checkpoint/background_save.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/blocked_signals.hpp>
#include <mn/core/cpus.hpp>

namespace mn {
namespace {

/// Seconds in which this thread could run, or waited for storage: not for a CPU.
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

/// (4): nobody may go back from it without a privilege, so each save has a thread of its own.
void leave_cpus_to_others() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_IDLE, &none);
}

}  // namespace

BackgroundSave::~BackgroundSave() { join(); }

void BackgroundSave::start(std::function<void()> work) {
  is_ready_ = false;
  const BlockedSignals blocked;
  thread_ = std::thread([this, work = std::move(work)] {
    const OwnTime time;
    work();
    save_s_ += time.seconds();
    is_ready_ = true;
  });
}

void BackgroundSave::join() {
  hand_over_ = true;
  if (thread_.joinable()) thread_.join();
  hand_over_ = false;
}

void BackgroundSave::begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint) {
  const OwnTime time;
  auto save = std::make_unique<CheckpointSave>(comm, path, checkpoint);
  save->begin_copy(memory_);
  save_s_ = time.seconds();
  is_root_ = comm.rank() == 0;
  is_collected_ = is_copied_ = false;
  save_ = std::move(save);
  start([this] { copy_and_write(); });
}

void BackgroundSave::copy_and_write() {
  const OwnTime time;
  save_->finish_copy();
  copy_s_ = time.seconds();
  is_copied_ = true;
  is_copied_.notify_all();
  leave_cpus_to_others();
  static_cast<void>(save_->write(hand_over_));
}

void BackgroundSave::finish_copy() { is_copied_.wait(false); }

bool BackgroundSave::advance(const std::function<void()>& after_commit) {
  join();
  if (is_collected_) {
    std::exchange(save_, nullptr)->finish();
    return true;
  }
  const OwnTime time;
  save_->write();  // the rest
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
