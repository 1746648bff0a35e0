/// Options of all converters.
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
  std::int64_t shard_bytes = std::int64_t{256} << 20;  ///< size of a shard's samples, about
  int threads = 1;                                     ///< threads of this process; each holds one shard in memory
  JobRank me = {};                                     ///< this process's rank among the processes of the conversion
  /// Called with the progress of this process, one call at a time.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

}  // namespace mn::data
