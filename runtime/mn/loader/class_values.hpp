/// The classes of all samples of a dataset, on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/data/sub_dataset.hpp>

namespace mn {

/// Collective: [global_size] the class of each sample, for balanced_weights(). Each rank reads the class field of its
/// part of the samples, and of shards nothing else. Throws the same error on every rank: UsageError if no field is a
/// class, or if not every rank can read every sample; DataError if a sample can't be read.
[[nodiscard]] std::vector<std::int64_t> read_classes(const SubDataset& dataset, Communicator& comm);

}  // namespace mn
