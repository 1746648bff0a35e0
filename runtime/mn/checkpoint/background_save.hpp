/// Saves a checkpoint beside training: a copy first, then a thread writes it.
///
/// (1) What is saved is what the tensors held when begin() was called. Those on the CPU are copied by the thread, while
///     training makes the next gradients: they may change once finish_copy() has returned.
/// (2) Only begin() and advance() exchange messages, on the thread that trains; the writer makes no MPI call.
/// (3) One save at a time. Memory: a copy of what this rank writes, kept from one save to the next.
/// (4) The copy goes at full speed, as training waits for it. The writing takes what training leaves of the CPUs. Where
///     ranks use all of them, both together take half a percent of one: the save takes 200 times their CPU time, so
///     that ranks which pause at different times lose less than one percent. A thread that waits for the writing goes
///     on with it itself.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/core/uninitialized.hpp>

namespace mn {

class BackgroundSave {
 public:
  BackgroundSave() = default;
  /// Without a commit there is no checkpoint.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

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
  void start(std::function<void()> work);
  void copy_and_write();
  void join();

  std::unique_ptr<CheckpointSave> save_;
  ByteBuffer memory_;
  bool is_root_ = false;
  bool is_collected_ = false;
  std::atomic<bool> is_copied_ = true;
  std::atomic<bool> is_ready_ = false;
  std::atomic<bool> hand_over_ = false;  // the writer is to leave the rest to join()
  double copy_s_ = 0, save_s_ = 0;       // the thread's, until it is joined
  std::thread thread_;
};

}  // namespace mn
