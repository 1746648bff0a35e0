/// Saves a checkpoint, a folder: each rank writes a file of its own, a shard (format/checkpoint_manifest.hpp,
/// format/commit.hpp).
///
/// (1) Tensors that are equal on all ranks are stored once. They are cut into slices of equal size, one for each rank
///     that writes (a writer). There is one writer for each 64 MiB of these tensors, but there are at most as many
///     writers as ranks. The writers are spread over the nodes.
/// (2) Tensors that belong to a single rank are written by this rank. Therefore no rank needs memory for tensors of
///     other ranks.
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

/// A rank's elements [begin, begin + elements.numel()) of a tensor that is divided among the ranks.
struct TensorPiece {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the whole tensor
  std::uint64_t begin = 0;
  at::Tensor elements;  ///< one dimension
};

/// The data that one rank stores in a checkpoint. TrainingState collects the data.
struct Checkpoint {
  nlohmann::json about;                  ///< counters, iterator, extensions, …; only rank 0's value is saved
  NamedTensors shared;                   ///< equal on all ranks, in the same order
  NamedTensors root;                     ///< rank 0's tensors, which are stored for all ranks
  NamedTensors own;                      ///< state of this rank alone
  std::vector<TensorPiece> pieces = {};  ///< this rank's pieces of divided tensors
  std::string objection = {};            ///< a reason not to save this rank's tensors; empty: none
};

/// The number of bytes of shared tensors for each writer. If there are more bytes for each rank, all ranks are writers.
inline constexpr std::uint64_t kBytesPerWriter = std::uint64_t{64} << 20;

/// The part of a tensor that one rank writes.
struct CheckpointSlice {
  ShardPart part;
  at::Tensor tensor;        ///< the whole tensor, or a piece of it, borrowed
  std::uint64_t begin = 0;  ///< the place of the first element of `tensor` in the whole tensor
};

/// Not collective: returns the slices that this rank writes, in the order of its shard. Throws ArgumentError if a
/// tensor has a dtype that checkpoints cannot store.
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

/// A save in the steps write(), collect(), commit_on_root() and finish(). All ranks must complete a step before the
/// next step begins. The constructor, collect() and finish() are collective; the other steps may run on a second
/// thread.
class CheckpointSave {
 public:
  /// Collective: rank 0 makes the checkpoint's folder. The tensors must stay unchanged until copy() or write() has
  /// returned. Throws SaveError.
  CheckpointSave(Communicator& comm, std::filesystem::path path, const Checkpoint& checkpoint,
                 std::uint64_t bytes_per_writer = kBytesPerWriter);
  /// Copies this rank's slices into `memory`, from which write() writes them. Waits once for the devices.
  void copy(CopyMemory& memory) noexcept;
  /// Writes this rank's shard to stable storage. If the write fails, finish() throws the error. If `pause` is not
  /// empty, calls `pause` after each piece of a few MiB.
  void write(const std::function<void()>& pause = {}) noexcept;
  /// Collective: sends the description of each rank's shard, or the rank's error, to rank 0.
  void collect();
  /// On rank 0: turns the written files into a checkpoint. Returns false if any rank has failed; the folder is then
  /// removed.
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
