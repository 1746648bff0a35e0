/// Checkpoints of a job: each rank writes and reads its own part of a folder (format/checkpoint_manifest.hpp,
/// format/commit.hpp).
///
/// (1) Tensors that are the same on all ranks are stored once, cut into as many slices of equal bytes as there are
///     writers: one for each 64 MiB, at most all ranks, spread over the nodes.
/// (2) What a rank has for itself it writes and reads by itself: no rank holds another's.
/// (3) A failure on any rank ends the save on all ranks, and the checkpoint before stays the newest.
/// Memory: a save needs what one tensor on a device needs on the host; a load one tensor beside those that it fills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mn/checkpoint/format/tensor_shard_writer.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

class Communicator;

/// What a rank has of a checkpoint. A Trainer fills it.
struct Checkpoint {
  nlohmann::json about;  ///< counters, iterator, extensions, …; rank 0's counts
  NamedTensors shared;   ///< the same on all ranks, in the same order
  NamedTensors root;     ///< on rank 0, for all ranks
  NamedTensors own;      ///< state that this rank alone has
};

/// A checkpoint could not be written; every rank throws it. Training may go on.
class SaveError : public DataError {
 public:
  explicit SaveError(const std::string& what) : DataError(what, true) {}
};

/// Bytes of shared tensors for which there is one writer.
inline constexpr std::uint64_t kBytesPerWriter = std::uint64_t{64} << 20;

/// One save. The constructor and commit() are collective, write() is local and may run on another thread.
class CheckpointSave {
 public:
  /// Makes the folder. Borrows the tensors until write() returns. Throws SaveError.
  CheckpointSave(Communicator& comm, std::filesystem::path path, const Checkpoint& checkpoint,
                 std::uint64_t bytes_per_writer = kBytesPerWriter);
  /// Copies what this rank writes into `memory`, which grows to what is needed and serves one save after the other:
  /// the tensors may change from here on. Waits for the device. Local.
  void copy_to(std::vector<std::byte>& memory);
  /// Writes this rank's shard; returns when it is on stable storage. Does not throw: commit() tells.
  void write() noexcept;
  /// Returns when the checkpoint can be loaded. Throws SaveError with the reason, with nothing left of it.
  void commit();

 private:
  /// Elements [begin, end) of a tensor.
  struct Slice {
    ShardPart part;
    at::Tensor tensor;
  };

  void add_shared(NamedTensors tensors, std::uint64_t bytes_per_writer);
  void add_whole(const std::string& name, const at::Tensor& tensor);
  void begin();
  [[nodiscard]] std::string commit_on_root(const std::vector<nlohmann::json>& shards) const;

  Communicator& comm_;
  std::filesystem::path path_;
  std::filesystem::path folder_;  // holds the shards
  nlohmann::json about_;
  std::vector<Slice> slices_;
  const std::vector<std::byte>* memory_ = nullptr;  // that copy_to() has filled
  nlohmann::json written_;                          // what commit() tells rank 0
};

/// Collective: all of the above.
void save_checkpoint(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint,
                     std::uint64_t bytes_per_writer = kBytesPerWriter);

}  // namespace mn
