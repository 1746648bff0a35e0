/// A shard's entry in a table.
#pragma once

#include <cstdint>
#include <string>

#include <mn/data/shard_format.hpp>

namespace mn::data {

struct ShardInfo {
  std::string file;  ///< name in the table's folder
  std::int64_t num_samples = 0;
  std::int64_t bytes = 0;  ///< size of the file
  Uuid uuid = {};
  std::uint32_t header_crc = 0;
  bool operator==(const ShardInfo&) const = default;
};

}  // namespace mn::data
