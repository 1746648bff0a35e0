/// Saves a checkpoint beside training: a copy first, then a thread writes it.
///
/// (1) What is saved is what the tensors held when begin() was called. That copies those on a device and those that
///     change at once; the thread copies the others while training makes the next gradients: they may change once
///     finish_copy() has returned.
/// (2) Only begin() and advance() exchange messages, on the thread that trains; the writer makes no MPI call.
/// (3) One save at a time. Memory: a copy of what this rank writes, kept from one save to the next. To make it takes
///     longer than a copy: prepare() does that beforehand, beside training.
/// (4) The copy goes at full speed, as training waits for it. The writing takes what training leaves of the CPUs. Where
///     ranks use all of them, both together take half a percent of one: the save takes 200 times their CPU time, so
///     that ranks which pause at different times lose less than one percent. A thread that waits for the writing goes
///     on with it itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/checkpoint/copy_memory.hpp>

namespace mn {

class BackgroundSave {
 public:
  BackgroundSave() = default;
  /// Without a commit there is no checkpoint.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Local, while none is under way: makes the memory of saves of such tensors, with a tenth of a CPU where others want
  /// it; is_ready() tells when that is done. A save may begin before, but the copy takes longer then.
  void prepare(const Communicator& comm, const Checkpoint& like);
  /// Collective, while none is under way. Throws SaveError.
  void begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint);
  /// Local.
  void finish_copy();
  /// From begin() until advance() says that it is over; the same on every rank.
  [[nodiscard]] bool is_under_way() const noexcept { return save_ != nullptr; }
  /// Local: whether this rank's thread has nothing to do any more, so that advance() won't wait for it.
  [[nodiscard]] bool is_ready() const noexcept { return is_ready_; }
  /// Collective. First, once all ranks have written, it begins the commit: rank 0's thread makes it, and calls
  /// `after_commit` then, which must not throw. The second time it is over: returns true, or throws SaveError or
  /// SaveRefused. Waits where a rank is not ready.
  bool advance(const std::function<void()>& after_commit = {});
  /// Collective: advances to the end.
  void commit();

  /// Seconds that the last copy of tensors on the CPU took.
  [[nodiscard]] double copy_s() const noexcept { return copy_s_; }
  /// Seconds that the last save has taken on this rank, without those in which it had no CPU.
  [[nodiscard]] double save_s() const noexcept { return save_s_; }

 private:
  void start(const std::function<void()>& work);
  void make_memory(std::uint64_t bytes, Device device) noexcept;
  void copy_and_write();
  void join();
  [[nodiscard]] bool sleep(double seconds);

  std::unique_ptr<CheckpointSave> save_;
  CopyMemory memory_;
  bool is_root_ = false;
  bool is_collected_ = false;
  std::atomic<bool> is_copied_ = true;
  std::atomic<bool> is_ready_ = false;
  std::atomic<bool> hand_over_ = false;  // the thread is to leave the rest to who joins it
  std::mutex mutex_;
  std::condition_variable wake_;    // when that becomes true
  double copy_s_ = 0, save_s_ = 0;  // the thread's, until it is joined
  std::thread thread_;
};

}  // namespace mn
