/// The engine of all converters: any number of processes make the shards of a conversion together.
#pragma once

#include <cstdint>
#include <vector>

#include "data/conversion.hpp"

namespace mn::data {

struct ConversionResult {
  bool complete = false;           ///< this process was the last, and wrote the manifests
  std::vector<ShardTable> tables;  ///< tables of each output, if complete
  std::int64_t shards = 0;         ///< shards of this process's part
  std::int64_t kept_shards = 0;    ///< shards of all processes made by an earlier run, if complete
};

/// All processes, options.me of ranks 0 … size − 1, call run_conversion() at once; rank r makes the units with unit mod
/// size = r. Processes wait only for the plan. Shards are published one by one, the manifests after the last process
/// has finished. After an interruption, a repeated call, by any number of processes, makes the missing or damaged
/// shards. Throws UsageError if the folders have a dataset, shards, or another conversion's files, or another
/// conversion is writing there; DataError, and the errors of the conversion.
ConversionResult run_conversion(Conversion& conversion, const ConvertOptions& options);

}  // namespace mn::data
