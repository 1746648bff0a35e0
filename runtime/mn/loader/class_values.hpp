/// The classes of all samples of a dataset, on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/data/sub_dataset.hpp>

namespace mn {

/// Returns the class of each sample of the whole dataset, [global_size], for balanced_weights(). Collective over
/// `comm`; blocks. Each rank reads the classes of a part of the samples; in shards it reads no other field. Throws the
/// same error on every rank: UsageError if no field is a class, or if not every rank can read every sample; DataError
/// if a sample can't be read.
[[nodiscard]] std::vector<std::int64_t> read_classes(const SubDataset& dataset, Communicator& comm);

}  // namespace mn
