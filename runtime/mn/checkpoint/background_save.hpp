/// Saves a checkpoint in the background: training waits only while the tensors are copied, and a thread writes the
/// copy.
///
/// (1) Only begin() and advance() exchange messages, on the training thread; the writing thread makes no MPI call.
/// (2) Only one save at a time is under way. Memory: a copy of the slices that this rank writes. The memory is reused
///     by the next save. Allocating memory takes longer than copying, so prepare() lets a thread allocate it
///     beforehand, during training.
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
  /// Ends the writing thread. If a save is under way and not committed, it leaves no checkpoint.
  ~BackgroundSave() { is_abandoned_ = true; }

  /// Not collective. Call it while no save is under way. Starts a thread that allocates memory for later saves of
  /// tensors with the dtypes and shapes of `like`. is_ready() is true once the memory is allocated. A save that begins
  /// earlier waits for the thread.
  void prepare(const Communicator& comm, const Checkpoint& like);
  /// Collective: begins a save. Call it while no save is under way. Copies the tensors, which the program may change
  /// afterwards, and starts the thread that writes. Throws SaveError.
  void begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint);
  /// Whether a save is under way: true, on all ranks, from begin() until advance() returns true or throws.
  [[nodiscard]] bool is_under_way() const noexcept { return save_ != nullptr; }
  /// Not collective: true if this rank's thread has completed its work; advance() need not wait for the rank then.
  [[nodiscard]] bool is_ready() const noexcept { return is_ready_; }
  /// Collective: takes the next of a save's two last steps, after waiting for the threads of all ranks. The first call
  /// returns false and begins the commit: rank 0's thread writes the manifest, then calls `after_commit`, which must
  /// not throw. The second call ends the save: it returns true, or throws SaveError or SaveRefused.
  bool advance(const std::function<void()>& after_commit = {});

  /// How many seconds the last save took on this rank, without pauses and without waits for a CPU.
  [[nodiscard]] double save_s() const noexcept { return save_s_; }

 private:
  void start(const std::function<void(const std::stop_token& urgent)>& work);
  void join() { thread_ = std::jthread(); }

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
