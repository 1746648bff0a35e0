/// What a checkpoint holds of a rank, and which part of that the rank writes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/format/tensor_shard_writer.hpp>
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
  /// Those of these tensors that forward and backward change. A save beside training copies them before it lets
  /// training go on.
  std::unordered_set<const c10::TensorImpl*> at_once = {};
  /// Tells why the state of this rank is not to be saved; empty: it is. May be null. Called where the tensors are
  /// copied or written.
  std::function<std::string()> objection = {};
};

/// Bytes of shared tensors for which there is one writer.
inline constexpr std::uint64_t kBytesPerWriter = std::uint64_t{64} << 20;

/// Elements of a tensor.
struct CheckpointSlice {
  ShardPart part;
  at::Tensor tensor;  ///< all of it, borrowed
  bool at_once = false;
  std::uint32_t version = 0;
};

/// Those that this rank writes, as they follow one another in its shard. Local. Throws DataError if a tensor has a
/// dtype that checkpoints do not hold.
[[nodiscard]] std::vector<CheckpointSlice> slices_of_rank(const Communicator& comm, const Checkpoint& checkpoint,
                                                          std::uint64_t bytes_per_writer = kBytesPerWriter);
/// The size of all slices together.
[[nodiscard]] std::uint64_t bytes_of(const std::vector<CheckpointSlice>& slices);

}  // namespace mn
