/// Shards of any size that take no room: all bytes of their samples are zero, and holes of the files.
#pragma once

#include <cstdint>
#include <string>

#include <mn/data/manifest.hpp>

namespace mn::test {

/// Makes `shards` shards of `samples` labeled samples together, each of `sample_bytes`: arrays of bytes, or encoded.
/// They have no HDF5 structure, which mn does not read.
[[nodiscard]] data::ShardTable make_sparse_shards(const std::string& folder, FieldKind kind, std::int64_t samples,
                                                  std::int64_t sample_bytes, std::int64_t shards);

}  // namespace mn::test
