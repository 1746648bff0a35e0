/// A shard table, and what this process holds of its shards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <mn/data/manifest.hpp>
#include <mn/data/read_pool.hpp>
#include <mn/data/shard_cache.hpp>
#include <mn/data/shard_reader.hpp>
#include <mn/data/shard_stage.hpp>

namespace mn::data {

/// 64 reads of 64 KiB at a time are 2 GB/s from storage that takes 2 ms for each.
inline constexpr int kReadsAtATime = 64;

/// Members are thread-safe, once `stage` is set.
struct OpenShards {
  OpenShards(ShardTable shards, const ShardDatasetOptions& options, std::shared_ptr<IoCounters> io)
      : table(std::move(shards)),
        stored_spec(without_classes(table.spec())),
        cache(options, table.total_bytes()),
        files(cache, std::min(options.open_shards, static_cast<std::int64_t>(table.shards().size()))),
        counters(std::move(io)) {}

  /// The shard's reader, by its copy on the node if there is one that is good. Throws as open_shard() does.
  [[nodiscard]] std::shared_ptr<const ShardReader> reader(std::size_t shard);
  /// Whether reader() need not open it.
  [[nodiscard]] bool is_open(std::size_t shard) { return cache.is_open(shard) || cache.is_open(key_of_copy(shard)); }
  /// Closes it, so that the next reader() opens it again.
  void close(std::size_t shard);
  /// Whether reader() looks for a copy of the shard.
  [[nodiscard]] bool has_copy(std::size_t shard) const { return stage != nullptr && stage->has_copy(shard); }
  /// Its copy is read no more.
  void drop_copy(std::size_t shard, const std::string& why);

  ShardTable table;
  SampleSpec stored_spec;  // as every shard must have it
  ShardCache<ShardReader> cache;
  FileBudget files;
  std::shared_ptr<IoCounters> counters;
  ReadPool pool{kReadsAtATime};
  std::unique_ptr<ShardStage> stage;  // null: no copies

 private:
  [[nodiscard]] std::shared_ptr<const ShardReader> open(std::size_t shard, const std::function<File()>& open_file);
  [[nodiscard]] std::size_t key_of_copy(std::size_t shard) const { return table.shards().size() + shard; }
};

}  // namespace mn::data
