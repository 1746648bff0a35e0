/// Saves a checkpoint beside training: a copy at once, then a thread that writes it.
///
/// (1) What is saved is what the tensors held when begin() was called: they may be updated as soon as it returns.
/// (2) Only begin() and commit() exchange messages, on the thread that trains; the writer makes no MPI call.
/// (3) One save at a time. Memory: a copy of what this rank writes, kept from one save to the next.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <mn/checkpoint/checkpoint.hpp>

namespace mn {

class BackgroundSave {
 public:
  BackgroundSave() = default;
  /// Waits for the writer; without a commit there is no checkpoint.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Collective, while none is under way. Throws SaveError.
  void begin(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint);
  /// Between begin() and commit(); the same on every rank.
  [[nodiscard]] bool is_under_way() const noexcept { return save_ != nullptr; }
  /// Local: whether this rank's part is on storage, or has failed.
  [[nodiscard]] bool is_written() const noexcept { return written_; }
  /// Collective: waits for all ranks' writers. Throws SaveError; none is under way afterwards.
  void commit();

 private:
  void join();

  std::unique_ptr<CheckpointSave> save_;
  std::vector<std::byte> memory_;
  std::atomic<bool> written_ = false;
  std::thread writer_;
};

}  // namespace mn
