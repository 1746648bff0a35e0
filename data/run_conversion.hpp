/// The engine of all converters: any number of processes make the shards of a conversion together.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/data/manifest.hpp>

#include "data/conversion.hpp"
#include "data/convert_options.hpp"

namespace mn::data {

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
