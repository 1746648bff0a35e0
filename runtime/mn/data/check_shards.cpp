#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <mn/data/check_shards.hpp>
#include <mn/data/retry.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {

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
