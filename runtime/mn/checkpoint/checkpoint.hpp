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

/// What one rank stores in a checkpoint. TrainingState collects it.
struct Checkpoint {
  nlohmann::json about;        ///< counters, iterator, extensions, …; only rank 0's value is saved
  NamedTensors shared;         ///< equal on all ranks, in the same order
  NamedTensors root;           ///< rank 0's tensors, which are stored for all ranks
  NamedTensors own;            ///< state of this rank alone
  std::string objection = {};  ///< a reason not to save this rank's tensors; empty: none
};

/// There is one writer for each so many bytes of shared tensors, up to the number of ranks.
inline constexpr std::uint64_t kBytesPerWriter = std::uint64_t{64} << 20;

/// The part of a tensor that one rank writes.
struct CheckpointSlice {
  ShardPart part;
  at::Tensor tensor;  ///< the whole tensor, borrowed
};

/// Not collective: returns this rank's slices, in the order of its shard. Throws ArgumentError for other dtypes.
[[nodiscard]] std::vector<CheckpointSlice> slices_of_rank(const Communicator& comm, const Checkpoint& checkpoint,
                                                          std::uint64_t bytes_per_writer = kBytesPerWriter);
/// The number of bytes of all slices together.
[[nodiscard]] std::uint64_t bytes_of(const std::vector<CheckpointSlice>& slices);

/// Thrown by every rank if a checkpoint could not be written. Training may go on.
class SaveError : public DataError {
 public:
  explicit SaveError(const std::string& what) : DataError(what, true) {}
};

/// Thrown by every rank if a rank refuses to save its tensors. The reason is in Checkpoint::objection.
class SaveRefused : public DataError {
 public:
  explicit SaveRefused(const std::string& objection) : DataError(objection, true) {}
};

/// The steps of a save: write(), collect(), commit_on_root(), finish(). All ranks complete a step before the next step
/// begins. The constructor, collect() and finish() are collective; a second thread may call the rest.
class CheckpointSave {
 public:
  /// Rank 0 makes the folder. The tensors must stay unchanged until copy() or write() has returned. Throws SaveError.
  CheckpointSave(Communicator& comm, std::filesystem::path path, const Checkpoint& checkpoint,
                 std::uint64_t bytes_per_writer = kBytesPerWriter);
  /// Copies this rank's slices into `memory`, from which write() writes them. Waits once for the devices.
  void copy(CopyMemory& memory) noexcept;
  /// Writes this rank's shard to stable storage. If the write fails, finish() throws the error. After each piece of a
  /// few MiB, calls `pause` unless it is empty.
  void write(const std::function<void()>& pause = {}) noexcept;
  /// Collective: sends the description of each rank's shard, or the rank's error, to rank 0.
  void collect();
  /// On rank 0: makes the written files a checkpoint. False if a rank has failed; the folder is then removed.
  bool commit_on_root() noexcept;
  /// Collective: ends the save. Throws SaveError or SaveRefused if no checkpoint was made.
  void finish();

 private:
  void attempt(const std::function<void()>& work) noexcept;

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
