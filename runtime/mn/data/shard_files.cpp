#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/data/retry.hpp>
#include <mn/data/shard_files.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {

StoredFiles shard_files(ShardTable given) {
  const auto table = std::make_shared<const ShardTable>(std::move(given));
  const auto open = [table, spec = without_classes(table->spec())](std::size_t shard,
                                                                   const std::function<File()>& open_bytes,
                                                                   std::shared_ptr<IoCounters> counters) {
    auto reader = std::make_shared<const ShardReader>(open_shard(*table, shard, open_bytes()), std::move(counters));
    if (reader->size() != table->shards()[shard].num_samples ||
        reader->header().block_samples != table->block_samples() || reader->header().spec != spec) {
      throw DataError(reader->path() +
                      " is another kind of shard than the manifest says: make the shards again with mnshard");
    }
    return reader;
  };
  return {table, open, [table] { check_shards(*table); }};
}

void check_shards(const ShardTable& table) {
  // Each waits for the file server, not for a core.
  constexpr std::size_t kShardsForThread = 16;
  constexpr std::size_t kMaxThreads = 64;
  const std::size_t shards = table.shards().size();
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards the rest
  std::size_t bad = shards;
  std::exception_ptr error;
  const auto work = [&] {
    for (std::size_t i = next++; i < shards; i = next++) {
      try {
        with_retries([&] { (void)open_shard(table, i); }, [] {});
      } catch (...) {
        next = shards;
        const std::lock_guard lock(mutex);
        if (i < bad) error = std::current_exception();
        bad = std::min(bad, i);
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 1; t < std::min(kMaxThreads, shards / kShardsForThread); ++t) threads.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace mn::data
