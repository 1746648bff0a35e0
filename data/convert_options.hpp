/// What all converters are told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <mn/core/ranks.hpp>

namespace mn::data {

struct ConvertOptions {
  std::filesystem::path out;  ///< the dataset's folder; made if absent
  std::string split = "train";
  std::int64_t shard_bytes = std::int64_t{256} << 20;  ///< samples go into shards of about this size
  int threads = 1;                                     ///< threads of this process; each holds one shard in memory
  JobRank me = {};                                     ///< which of the processes that call this at once
  /// Progress of this process; one call at a time.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

}  // namespace mn::data
