/// Saves a checkpoint in the background: training waits for a copy of the tensors, and a thread writes the copy.
///
/// (1) Only begin() and advance() exchange messages, on the training thread; the writing thread makes no MPI call.
/// (2) Only one save at a time is under way. Memory: a copy of the slices that this rank writes. The memory is reused
///     by the next save. Its allocation takes longer than the copy, so prepare() lets a thread allocate it beforehand,
///     during training.
/// (3) The writing thread takes idle CPU time. If the ranks use all CPUs, the thread takes half a percent of one CPU,
///     and a save lasts 200 times its CPU time. Training slows down by less than one percent, although the ranks'
///     threads pause at different times. advance() completes the writing at full speed.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/checkpoint/copy_memory.hpp>

namespace mn {

class BackgroundSave {
 public:
  BackgroundSave() = default;
  /// Ends the thread. A save that was not committed leaves no checkpoint.
  ~BackgroundSave() { is_abandoned_ = true; }
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Not collective. Call it while no save is under way. Starts a thread that allocates the memory for saves of tensors
  /// with the forms in `like`. is_ready() is true once the memory is allocated. A save that begins earlier waits for
  /// the thread.
  void prepare(const Communicator& comm, const Checkpoint& like);
  /// Collective. Call it while no save is under way. Copies the tensors, which may change after the return, and begins
  /// to write. Throws SaveError.
  void begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint);
  /// True from begin() until advance() returns true or throws; on all ranks.
  [[nodiscard]] bool is_under_way() const noexcept { return save_ != nullptr; }
  /// Not collective: true if this rank's thread has completed its work, so that advance() would not wait for this rank.
  [[nodiscard]] bool is_ready() const noexcept { return is_ready_; }
  /// Collective; waits until all ranks are ready. The first call begins the commit: rank 0's thread writes the
  /// manifest, then calls `after_commit`, which must not throw. The second call ends the save: it returns true, or
  /// throws SaveError or SaveRefused.
  bool advance(const std::function<void()>& after_commit = {});
  /// Collective: calls advance() until the save is over.
  void commit();

  /// Seconds of the last save on this rank, without pauses and waits for a CPU.
  [[nodiscard]] double save_s() const noexcept { return save_s_; }

 private:
  void start(const std::function<void(const std::stop_token& urgent)>& work);
  void join();

  std::unique_ptr<CheckpointSave> save_;
  CopyMemory memory_;
  bool is_root_ = false;
  bool is_collected_ = false;
  std::atomic<bool> is_ready_ = false;
  std::atomic<bool> is_abandoned_ = false;
  double save_s_ = 0;    // only thread_ may use it until thread_ is joined
  std::jthread thread_;  // a stop request ends its pauses, not its work
};

}  // namespace mn
