/// Whether the shards of a table are there, before anything is read.
#pragma once

#include <mn/data/manifest.hpp>

namespace mn::data {

/// Opens every shard, many at a time, and compares its header and length with the table. Throws DataError that names
/// the first that is missing, truncated, changed or damaged. Reads no sample.
void check_shards(const ShardTable& table);

}  // namespace mn::data
