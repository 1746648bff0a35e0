/// One read of samples from shards.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <mn/data/dataset.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/read_pool.hpp>
#include <mn/data/shard_cache.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {

/// 64 reads of 64 KiB at a time are 2 GB/s from storage that takes 2 ms for each.
inline constexpr int kReadsAtATime = 64;

/// A shard table, and what this process holds of its shards.
struct OpenShards {
  OpenShards(ShardTable shards, const ShardDatasetOptions& options, std::shared_ptr<IoCounters> io)
      : table(std::move(shards)),
        stored_spec(without_classes(table.spec())),
        cache(options, table.total_bytes()),
        counters(std::move(io)) {}

  ShardTable table;
  SampleSpec stored_spec;  // as every shard must have it
  ShardCache<ShardReader> cache;
  std::shared_ptr<IoCounters> counters;
  ReadPool pool{kReadsAtATime};
};

/// Dataset::read() of samples of these shards. Thread-safe.
void read_samples(OpenShards& shards, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged);

}  // namespace mn::data
