/// The engine of all converters: any number of processes make the shards of a conversion together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <mn/core/ranks.hpp>
#include <mn/data/manifest.hpp>

#include "data/conversion.hpp"

namespace mn::data {

struct ConvertOptions {
  std::filesystem::path out;  ///< the dataset's folder; made if absent
  std::string split = "train";
  std::int64_t shard_bytes = std::int64_t{256} << 20;  ///< samples go into shards of about this size
  int threads = 1;                                     ///< threads of this process; each holds one shard in memory
  JobRank me = {};                                     ///< which of the processes that call this at once
  std::function<void(std::int64_t done, std::int64_t total)> progress =
      {};  ///< progress of this process; one call at a time
};

struct ConversionResult {
  bool complete = false;           ///< this process was the last, and wrote the manifests
  std::vector<ShardTable> tables;  ///< tables of each output, if complete
  std::int64_t shards = 0;         ///< shards of this process's part
  std::int64_t kept_shards = 0;    ///< shards of all processes that an earlier run made, if complete
};

/// Processes with options.me of ranks 0 … size − 1 call this at once, each on its part of the units: unit mod size. No
/// process waits for another, but for the plan. Shards are published one by one, the manifests when the last
/// process has finished; after an interruption the same call, by any number of processes, resumes with the shards that
/// are missing or damaged. Throws UsageError (a dataset, shards or the beginnings of another conversion are there
/// already, or another conversion writes there), DataError and what the conversion throws.
ConversionResult run_conversion(Conversion& conversion, const ConvertOptions& options);

}  // namespace mn::data
