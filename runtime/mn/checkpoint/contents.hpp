/// A rank's contents of a checkpoint, and the slices for its shard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/format/tensor_shard_writer.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

class Communicator;

/// A rank's contents of a checkpoint, as TrainingState collects them.
struct Checkpoint {
  nlohmann::json about;  ///< counters, iterator, extensions, …; the checkpoint holds rank 0's
  NamedTensors shared;   ///< equal on all ranks, in the same order
  NamedTensors root;     ///< rank 0's, stored for all ranks
  NamedTensors own;      ///< state of this rank alone
  std::string objection = {};  ///< a reason not to save this rank's tensors, or an empty text
};

/// Bytes of shared tensors for each writer.
inline constexpr std::uint64_t kBytesPerWriter = std::uint64_t{64} << 20;

/// A range of elements of a tensor, for a single writer.
struct CheckpointSlice {
  ShardPart part;
  at::Tensor tensor;  ///< the whole tensor, borrowed
};

/// The slices of this rank's shard, in order. Local. Throws DataError if a tensor has a dtype that
/// checkpoints do not hold.
[[nodiscard]] std::vector<CheckpointSlice> slices_of_rank(const Communicator& comm, const Checkpoint& checkpoint,
                                                          std::uint64_t bytes_per_writer = kBytesPerWriter);
/// Size of all slices together.
[[nodiscard]] std::uint64_t bytes_of(const std::vector<CheckpointSlice>& slices);

}  // namespace mn
