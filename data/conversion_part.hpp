/// The part of one process in a conversion: its shards, and the result that it sends to the other processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <mn/core/json.hpp>
#include <mn/data/manifest.hpp>

#include "data/conversion.hpp"
#include "data/convert_options.hpp"

namespace mn::data {

/// The outputs of an opened conversion by the numbers of their shards.
class Outputs {
 public:
  explicit Outputs(const std::vector<Output>& outputs);
  [[nodiscard]] std::size_t size() const { return outputs_.size(); }
  [[nodiscard]] const Output& operator[](std::size_t i) const { return outputs_[i]; }
  /// Number of the first shard of output `i`.
  [[nodiscard]] std::size_t first(std::size_t i) const { return firsts_[i]; }
  [[nodiscard]] std::size_t of_shard(std::size_t shard) const;
  [[nodiscard]] std::string file(std::size_t shard) const;
  [[nodiscard]] std::filesystem::path path(std::size_t shard) const;

 private:
  const std::vector<Output>& outputs_;
  std::vector<std::size_t> firsts_ = {0};
};

/// The shards of an output, and its largest class, combined from all processes' results.
struct OutputShards {
  std::vector<ShardInfo> shards;  ///< by number in the output; a missing shard has no file
  std::int64_t most = -1;         ///< −1: no class
};

/// The units of this process: unit mod number of processes is its rank.
class ConversionPart {
 public:
  ConversionPart(Conversion& conversion, const ConvertOptions& options);

  /// Makes the missing shards. Throws the first failure of a thread.
  void run();

  /// The JSON for shards_of_output() and kept_shards() in any process.
  [[nodiscard]] nlohmann::json result() const;
  [[nodiscard]] std::int64_t shards() const noexcept { return shards_; }

  /// False if an earlier run made the shard.
  [[nodiscard]] bool wants(std::size_t shard);
  /// Publishes a wanted shard. Call it once for each.
  void write(std::size_t shard, const ShardContent& content);
  /// Adds to the progress of the process. Throws if the conversion is to end.
  void advance(std::int64_t steps);

 private:
  /// The state of a shard file; notes a shard that is kept.
  ShardState state_of(std::size_t shard, const std::filesystem::path& path);
  void note(std::size_t shard, ShardInfo info, std::int64_t most);

  Conversion& conversion_;
  const ConvertOptions& options_;
  Outputs outputs_;
  std::vector<std::size_t> units_;
  std::int64_t total_ = 0;
  std::int64_t shards_ = 0;
  std::atomic<bool> stop_ = false;

  std::mutex mutex_;  // guards the rest
  std::map<std::size_t, ShardInfo> made_;
  std::vector<std::int64_t> most_;  // label, by output
  std::int64_t kept_ = 0;
  std::int64_t done_ = 0;
};

/// The shards of output `i`, from the results of all processes.
[[nodiscard]] OutputShards shards_of_output(const Outputs& outputs, std::size_t i,
                                            const std::vector<nlohmann::json>& results);
/// Number of shards that an earlier run made.
[[nodiscard]] std::int64_t kept_shards(const std::vector<nlohmann::json>& results);

}  // namespace mn::data
