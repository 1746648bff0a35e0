/// Saves a checkpoint in the background: training waits only while the tensors are copied, and a thread writes the
/// copy.
///
/// (1) Only begin() and advance() exchange messages, on the training thread; the writing thread makes no MPI call.
/// (2) Only one save at a time is under way. Memory: a copy of the slices that this rank writes. The next save uses the
///     same memory again. Allocating memory takes longer than copying, therefore prepare() lets a thread allocate the
///     memory before the first save, while training goes on.
/// (3) The writing thread takes idle CPU time. If the ranks use all CPUs, the thread takes half a percent of one CPU,
///     and a save lasts 200 times its CPU time. Training slows down by less than one percent, although the ranks'
///     threads pause at different times. advance() completes the writing at full speed.
/// (4) If the rank's pieces of sharded tensors lie on the host, begin() writes the shard without a copy, because a copy
///     would need as much memory as the pieces. Training then waits until the shard is written.
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
  /// Ends the writing thread. If a save is under way and not committed, the save leaves no checkpoint.
  ~BackgroundSave() { is_abandoned_ = true; }

  /// Not collective. Call it while no save is under way. Starts a thread that allocates memory for later saves; their
  /// tensors must have the dtypes and shapes of `like`. When the memory is allocated, is_ready() becomes true. If a
  /// save begins earlier, it waits for the thread.
  void prepare(const Communicator& comm, const Checkpoint& like);
  /// Collective: begins a save. Call it while no save is under way. Copies the tensors, and starts the thread that
  /// writes the copies; or writes the tensors (4). After the call the program may change the tensors. Throws SaveError.
  void begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint);
  /// True while a save is under way: on all ranks, from begin() until advance() returns true or throws.
  [[nodiscard]] bool is_under_way() const noexcept { return save_ != nullptr; }
  /// Not collective: true if the calling rank's thread has completed its work. advance() then need not wait for this
  /// rank.
  [[nodiscard]] bool is_ready() const noexcept { return is_ready_; }
  /// Collective: waits for the threads of all ranks, then takes the next of the two last steps of a save. The first
  /// call begins the commit and returns false; rank 0's thread writes the manifest and then calls `after_commit`, which
  /// must not throw. The second call ends the save: it returns true, or throws SaveError or SaveRefused.
  bool advance(const std::function<void()>& after_commit = {});

  /// Returns how many seconds of work the last save took on this rank. Pauses and waits for a CPU do not count.
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
