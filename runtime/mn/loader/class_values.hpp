/// Reads the class of every sample of a dataset, on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/data/scattered_dataset.hpp>

namespace mn {

/// Collective over `comm`; blocks. Returns the class of each sample of the whole dataset, for balanced_weights(). Each
/// rank reads the classes of a part of the samples; in shards it reads no other field. Throws an equal error on every
/// rank: UsageError if no field is a class, or if some rank cannot read every sample; DataError if a read fails.
[[nodiscard]] std::vector<std::int64_t> read_classes(const SubDataset& dataset, Communicator& comm);

}  // namespace mn
