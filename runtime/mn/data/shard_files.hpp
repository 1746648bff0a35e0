/// Shards as the files of a dataset.
#pragma once

#include <mn/data/manifest.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

/// A table of shards, and how they are opened.
[[nodiscard]] StoredFiles shard_files(ShardTable table);

/// Opens every shard, many at a time, and compares its header and length with the table. Throws DataError that names
/// the first that is missing, truncated, changed or damaged. Reads no sample.
void check_shards(const ShardTable& table);

}  // namespace mn::data
