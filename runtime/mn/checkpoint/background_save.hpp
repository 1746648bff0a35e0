/// Saves a checkpoint beside training: a thread copies the tensors, and writes the copy.
///
/// (1) The checkpoint holds the values that the tensors had at begin(). begin() copies tensors on a device and those
///     marked Checkpoint::at_once; the thread copies the others while training makes the next gradients. Tensors may
///     change after wait_for_copy().
/// (2) Only begin() and advance() exchange messages, on the thread that trains; the writing thread makes no MPI call.
/// (3) One save at a time. Memory: a copy of the slices written by this rank, kept from save to save. The allocation
///     takes longer than the copy: prepare() allocates beforehand, beside training.
/// (4) The copy runs at full speed, because training waits for it. The writing takes idle CPU time. If the ranks use
///     all CPUs, copy and writing together take half a percent of one CPU: a save lasts 200 times its CPU time, and
///     ranks with pauses at different times lose less than one percent. advance() completes the writing at full speed.
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
  /// Ends the thread. A save that was not committed leaves no checkpoint.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Local, while no save is under way: a thread allocates the memory for saves of tensors as in `like`, with a tenth
  /// of a CPU if the CPUs are busy. is_ready() tells when the memory is there; a save that begins earlier copies
  /// slower.
  void prepare(const Communicator& comm, const Checkpoint& like);
  /// Collective, while no save is under way. Throws SaveError.
  void begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint);
  /// Local: returns when this rank's copy is complete.
  void wait_for_copy();
  /// True from begin() until advance() returns true or throws; on all ranks.
  [[nodiscard]] bool is_under_way() const noexcept { return save_ != nullptr; }
  /// Local: true if this rank's thread has completed its work; advance() would not wait here.
  [[nodiscard]] bool is_ready() const noexcept { return is_ready_; }
  /// Collective; waits until all ranks are ready. The first call begins the commit: rank 0's thread writes the
  /// manifest, then calls `after_commit`, which must not throw. The second call ends the save: it returns true, or
  /// throws SaveError or SaveRefused.
  bool advance(const std::function<void()>& after_commit = {});
  /// Collective: calls advance() until the save is over.
  void commit();

  /// Seconds of the last copy of tensors on the CPU.
  [[nodiscard]] double copy_s() const noexcept { return copy_s_; }
  /// Seconds of the last save on this rank, without pauses and waits for a CPU.
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
  std::atomic<bool> hand_over_ = false;  // the thread leaves the rest of the work to join()'s caller
  std::mutex mutex_;
  std::condition_variable wake_;    // hand_over_ becomes true
  double copy_s_ = 0, save_s_ = 0;  // belong to the thread until it is joined
  std::thread thread_;
};

}  // namespace mn
