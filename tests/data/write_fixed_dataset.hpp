/// Shards of a dataset of fixed samples.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include <mn/data/dataset.hpp>

#include "data/fixed_conversion.hpp"

namespace mn::data {

/// Writes the samples as shards, in order, and then the manifest. Every shard gets `attributes`. Throws as
/// run_conversion() does.
inline ShardTable write_fixed_dataset(const Dataset& dataset, const ConvertOptions& options,
                                      std::map<std::string, std::string> attributes) {
  const auto source = std::make_shared<DatasetSource>(std::shared_ptr<const Dataset>(&dataset, [](const Dataset*) {}));
  FixedConversion conversion({{.output = {options.out, options.split},
                               .request = {{"fingerprint", dataset.fingerprint()}},
                               .attributes = std::move(attributes),
                               .open = [&](const std::filesystem::path&) { return source; }}},
                             options.shard_bytes);
  ConvertOptions alone = options;
  alone.me = {};
  return run_conversion(conversion, alone).tables.at(0);
}

}  // namespace mn::data
