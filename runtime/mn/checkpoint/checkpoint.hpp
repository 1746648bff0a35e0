/// Saves a checkpoint: each rank writes its own shard of a folder (format/checkpoint_manifest.hpp, format/commit.hpp).
///
/// (1) Tensors that are equal on all ranks are stored once, in slices of equal bytes: one slice for each writer. There
///     is a writer for each 64 MiB, at most all ranks, spread over the nodes.
/// (2) A rank writes its own tensors by itself: no rank holds foreign tensors.
/// (3) A failure on any rank ends the save on all ranks, and the checkpoint before stays the newest.
/// Memory: a blocking save needs host memory for one slice of a tensor on a device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mn/checkpoint/contents.hpp>
#include <mn/checkpoint/copy_memory.hpp>
#include <mn/checkpoint/format/tensor_shard_writer.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {

/// The number of times that libtorch's operators have changed the tensor in place. Changes through data() and
/// set_data() are not counted.
[[nodiscard]] std::uint32_t version_of(const at::Tensor& tensor);

/// A checkpoint could not be written; every rank throws it. Training may go on.
class SaveError : public DataError {
 public:
  explicit SaveError(const std::string& what, bool has_changed = false)
      : DataError(what, true), has_changed_(has_changed) {}
  /// True if a tensor changed while it was copied.
  [[nodiscard]] bool has_changed() const noexcept { return has_changed_; }

 private:
  bool has_changed_;
};

/// A rank has an objection to the tensors that were to be saved (Checkpoint::objection); every rank throws it.
class SaveRefused : public DataError {
 public:
  explicit SaveRefused(const std::string& objection) : DataError(objection, true) {}
};

/// One save: write(), collect(), commit_on_root(), finish(). Each step begins when all ranks have completed the step
/// before. The constructor, collect() and finish() are collective; the rest is local and may run on a second
/// thread.
class CheckpointSave {
 public:
  /// Rank 0 makes the folder. Borrows the tensors until they are copied or written. Throws SaveError.
  CheckpointSave(Communicator& comm, std::filesystem::path path, const Checkpoint& checkpoint,
                 std::uint64_t bytes_per_writer = kBytesPerWriter);
  /// Copies this rank's slices into `memory`. copy_first() copies tensors on a device and those marked
  /// Checkpoint::at_once; copy_rest() copies the rest. If a tensor changes in between, the save will fail.
  void copy_first(CopyMemory& memory) noexcept;
  void copy_rest() noexcept;
  /// Writes this rank's shard. Returns true when the shard is on stable storage, or has failed (finish() throws then);
  /// false if `hand_over` became true: then a second call, perhaps from a second thread, goes on. Calls `pause`, unless
  /// it is empty, after each piece of some MiB, with the piece's part of the shard (0 to 1).
  [[nodiscard]] bool write(const std::atomic<bool>& hand_over, const std::function<void(double)>& pause = {}) noexcept;
  void write() noexcept { static_cast<void>(write(false)); }
  /// Sends the description of each rank's shard to rank 0.
  void collect();
  /// For rank 0: commits the checkpoint. Returns false if a rank has failed; then the folder is removed.
  bool commit_on_root() noexcept;
  /// Throws SaveError or SaveRefused if there is no checkpoint.
  void finish();

 private:
  void begin();
  void attempt(const std::function<void()>& work) noexcept;
  void ask_for_objection();
  /// Copies a slice to byte `to` of the memory. A copy from a device may complete later, in stream order.
  void copy(CheckpointSlice& slice, std::uint64_t to);
  /// Returns the number of bytes written.
  [[nodiscard]] std::uint64_t write_piece();

  Communicator& comm_;
  std::filesystem::path path_;
  std::filesystem::path folder_;  // holds the shards
  nlohmann::json about_;
  std::vector<CheckpointSlice> slices_;     // a slice's tensor is undefined once it is copied
  std::uint64_t bytes_ = 0;                 // of all slices
  std::function<std::string()> objection_;  // null once it was asked
  CopyMemory* memory_ = nullptr;            // copies of all slices in a row; null for a blocking save
  std::optional<TensorShardWriter> shard_;
  std::size_t next_ = 0;                // the slice to write now
  std::uint64_t next_offset_ = 0;       // of the slice in memory_
  std::uint64_t written_of_next_ = 0;   // bytes of the slice
  at::Tensor host_;                     // the slice, without memory_
  nlohmann::json written_;              // description of the shard, or this rank's error; null until either is known
  std::vector<nlohmann::json> shards_;  // on rank 0: written_ of each rank
  nlohmann::json outcome_;              // on rank 0: an error, or {} for a checkpoint
};

/// Collective: saves a checkpoint while the caller waits. Throws SaveError or SaveRefused.
void save_checkpoint(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint,
                     std::uint64_t bytes_per_writer = kBytesPerWriter);

}  // namespace mn
