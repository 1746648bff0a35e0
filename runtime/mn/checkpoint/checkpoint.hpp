/// Saves a checkpoint: each rank writes its own shard of a folder (format/checkpoint_manifest.hpp, format/commit.hpp).
///
/// (1) Tensors that are equal on all ranks are stored once. They are cut into slices of equal size, one for each
///     writer. There is one writer for each 64 MiB of such tensors, but at most all ranks write. The writers are spread
///     over the nodes.
/// (2) Each rank writes its own tensors, so that no rank needs memory for tensors of other ranks.
/// (3) A failure on any rank ends the save on all ranks, and the previous checkpoint stays the newest.
/// Memory: a blocking save needs host memory for one slice of a tensor on a device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/format/tensor_shard_writer.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

class Communicator;
class CopyMemory;

/// A rank's contents of a checkpoint, as TrainingState collects them.
struct Checkpoint {
  nlohmann::json about;        ///< counters, iterator, extensions, …; only rank 0's value is saved
  NamedTensors shared;         ///< equal on all ranks, in the same order
  NamedTensors root;           ///< rank 0's tensors, which are stored for all ranks
  NamedTensors own;            ///< state of this rank alone
  std::string objection = {};  ///< a reason not to save this rank's tensors; empty: none
};

/// Bytes of shared tensors for each writer.
inline constexpr std::uint64_t kBytesPerWriter = std::uint64_t{64} << 20;

/// A range of elements of a tensor, for a single writer.
struct CheckpointSlice {
  ShardPart part;
  at::Tensor tensor;  ///< the whole tensor, borrowed
};

/// The slices of this rank's shard, in the order of the shard. Not collective. Throws DataError if checkpoints cannot
/// hold a tensor's dtype.
[[nodiscard]] std::vector<CheckpointSlice> slices_of_rank(const Communicator& comm, const Checkpoint& checkpoint,
                                                          std::uint64_t bytes_per_writer = kBytesPerWriter);
/// Size of all slices together.
[[nodiscard]] std::uint64_t bytes_of(const std::vector<CheckpointSlice>& slices);

/// Thrown by every rank if a checkpoint could not be written. Training may go on.
class SaveError : public DataError {
 public:
  explicit SaveError(const std::string& what) : DataError(what, true) {}
};

/// Thrown by every rank if some rank objects to saving its tensors (Checkpoint::objection).
class SaveRefused : public DataError {
 public:
  explicit SaveRefused(const std::string& objection) : DataError(objection, true) {}
};

/// One save: write(), collect(), commit_on_root(), finish(). Each step begins when all ranks have completed the
/// previous step. The constructor, collect() and finish() are collective. All other calls send nothing, and may run on
/// a second thread.
class CheckpointSave {
 public:
  /// Rank 0 makes the folder. Borrows the tensors until they are copied or written. Throws SaveError.
  CheckpointSave(Communicator& comm, std::filesystem::path path, const Checkpoint& checkpoint,
                 std::uint64_t bytes_per_writer = kBytesPerWriter);
  /// Copies this rank's slices into `memory`, which write() then reads. Copies from devices are all enqueued before the
  /// host waits for them.
  void copy(CopyMemory& memory) noexcept;
  /// Writes this rank's shard to stable storage. If the write fails, finish() throws the error. Calls `pause`, unless
  /// it is empty, after each piece of some MiB.
  void write(const std::function<void()>& pause = {}) noexcept;
  /// Sends the description of each rank's shard to rank 0.
  void collect();
  /// For rank 0: commits the checkpoint. Returns false if a rank has failed; then the folder is removed.
  bool commit_on_root() noexcept;
  /// Ends the save. Throws SaveError or SaveRefused if no checkpoint was committed.
  void finish();

 private:
  void attempt(const std::function<void()>& work) noexcept;
  void write_slices(const std::function<void()>& pause);

  Communicator& comm_;
  std::filesystem::path path_;
  std::filesystem::path folder_;  // holds the shards
  nlohmann::json about_;
  std::vector<CheckpointSlice> slices_;
  bool is_copied_ = false;              // slices_ hold copies of the slices' elements, not whole tensors
  nlohmann::json written_;              // description of the shard, or this rank's error; null until either is known
  std::vector<nlohmann::json> shards_;  // on rank 0: written_ of each rank
  nlohmann::json outcome_;              // on rank 0: an error, or {} for a checkpoint
};

/// Collective: saves a checkpoint while the caller waits. Throws SaveError or SaveRefused.
void save_checkpoint(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint,
                     std::uint64_t bytes_per_writer = kBytesPerWriter);

}  // namespace mn
