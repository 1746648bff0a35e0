/// One process's part of a conversion: which shards it makes, and what it tells the other processes of them.
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

/// The shards of an output, and its largest class, from what all parts have made.
struct OutputShards {
  std::vector<ShardInfo> shards;  ///< by number in the output; a missing one has no file
  std::int64_t most = -1;         ///< −1: no class
};

/// The units that this process converts: those whose number modulo the number of processes is its own.
class ConversionPart {
 public:
  ConversionPart(Conversion& conversion, const ConvertOptions& options);

  /// Makes the shards that are not there yet. Throws the first failure of a thread.
  void run();

  /// The JSON that shards_of_output() and kept_shards() take, on any process.
  [[nodiscard]] nlohmann::json result() const;
  [[nodiscard]] std::int64_t shards() const noexcept { return shards_; }

  /// False if an earlier run made the shard.
  [[nodiscard]] bool wants(std::size_t shard);
  /// Publishes a shard that is wanted; to be called once for each.
  void write(std::size_t shard, const ShardContent& content);
  /// Adds to the progress of the process. Throws if the conversion is to end.
  void advance(std::int64_t steps);

 private:
  /// The state of a shard file; takes note of a shard that is kept.
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

/// What the parts with these results have made of output `i`.
[[nodiscard]] OutputShards shards_of_output(const Outputs& outputs, std::size_t i,
                                            const std::vector<nlohmann::json>& results);
/// Shards that an earlier run had made.
[[nodiscard]] std::int64_t kept_shards(const std::vector<nlohmann::json>& results);

}  // namespace mn::data
