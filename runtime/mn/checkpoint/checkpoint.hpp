/// Checkpoints of a job: each rank writes and reads its own part of a folder (format/checkpoint_manifest.hpp,
/// format/commit.hpp).
///
/// (1) Tensors that are the same on all ranks are stored once, cut into as many slices of equal bytes as there are
///     writers: one for each 64 MiB, at most all ranks, spread over the nodes.
/// (2) What a rank has for itself it writes and reads by itself: no rank holds another's.
/// (3) A failure on any rank ends the save on all ranks, and the checkpoint before stays the newest.
/// Memory: a save needs what one tensor on a device needs on the host; a load one tensor beside those that it fills.
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

/// Number of changes in place by libtorch's operators; those through data() and set_data() do not count.
[[nodiscard]] std::uint32_t version_of(const at::Tensor& tensor);

/// A checkpoint could not be written; every rank throws it. Training may go on.
class SaveError : public DataError {
 public:
  explicit SaveError(const std::string& what, bool has_changed = false)
      : DataError(what, true), has_changed_(has_changed) {}
  /// Whether a tensor has changed while it was copied.
  [[nodiscard]] bool has_changed() const noexcept { return has_changed_; }

 private:
  bool has_changed_;
};

/// A rank has an objection to what was to be saved; every rank throws it.
class SaveRefused : public DataError {
 public:
  explicit SaveRefused(const std::string& objection) : DataError(objection, true) {}
};

/// One save: write(), collect(), commit_on_root(), finish(), each once all ranks have done the one before. The
/// constructor, collect() and finish() are collective, the others are local and may run on another thread.
class CheckpointSave {
 public:
  /// Makes the folder. Borrows the tensors until they are copied or written. Throws SaveError.
  CheckpointSave(Communicator& comm, std::filesystem::path path, const Checkpoint& checkpoint,
                 std::uint64_t bytes_per_writer = kBytesPerWriter);
  /// Copies what this rank writes into `memory`. begin_copy() copies what is on a device or to be copied at once;
  /// finish_copy() the rest. Where a tensor has changed in between, the save will fail.
  void begin_copy(CopyMemory& memory) noexcept;
  void finish_copy() noexcept;
  /// Writes this rank's shard; true when it is on stable storage, or has failed, which finish() tells; false if
  /// `hand_over` has become true: then another call, perhaps on another thread, goes on. `pause` is called after each
  /// piece of some MiB with the part of the shard that it was (0 to 1); it may be empty.
  [[nodiscard]] bool write(const std::atomic<bool>& hand_over, const std::function<void(double)>& pause = {}) noexcept;
  void write() noexcept { static_cast<void>(write(false)); }
  /// Rank 0 learns what the others have written.
  void collect();
  /// For rank 0: true when the checkpoint can be loaded, false if nothing is left of it.
  bool commit_on_root() noexcept;
  /// Throws SaveError with the reason why there is no checkpoint, or SaveRefused.
  void finish();

 private:
  void begin();
  void attempt(const std::function<void()>& work) noexcept;
  void ask_for_objection();
  /// To byte `to` of the memory; tensors on a device perhaps later, in the order of its current stream.
  void copy(CheckpointSlice& slice, std::uint64_t to);
  /// How many bytes that was.
  [[nodiscard]] std::uint64_t write_piece();

  Communicator& comm_;
  std::filesystem::path path_;
  std::filesystem::path folder_;  // holds the shards
  nlohmann::json about_;
  std::vector<CheckpointSlice> slices_;     // a tensor is empty once it is copied
  std::uint64_t bytes_ = 0;                 // of them
  std::function<std::string()> objection_;  // until it is asked
  CopyMemory* memory_ = nullptr;            // with copies of all slices, one after the other
  std::optional<TensorShardWriter> shard_;
  std::size_t next_ = 0;           // slice to be written
  std::uint64_t next_offset_ = 0;  // of that slice in memory_
  std::uint64_t written_of_next_ = 0;
  at::Tensor host_;                     // that slice, where there is no copy
  nlohmann::json written_;              // what rank 0 learns; null until it is known
  std::vector<nlohmann::json> shards_;  // on rank 0: of all
  nlohmann::json outcome_;              // on rank 0: {} for a checkpoint
};

/// Collective: all of the above.
void save_checkpoint(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint,
                     std::uint64_t bytes_per_writer = kBytesPerWriter);

}  // namespace mn
