#include "data/inspect.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include <mn/core/error.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {
namespace {

struct Verified {
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  std::vector<Damage> damage;
};

void verify_encoded(const ShardReader& reader, Verified& result) {
  for (std::int64_t i = 0; i < reader.size(); ++i) {
    if (reader.load_block(i) == nullptr) result.damage.push_back({reader.path(), i, "its checksum differs"});
  }
  (void)reader.read_keys();
  (void)reader.read_section(Section::kHwc);
}

void verify_fixed(const ShardReader& reader, Verified& result) {
  for (std::int64_t block = 0; block < reader.num_blocks(); ++block) {
    if (reader.load_block(block) != nullptr) continue;
    const std::int64_t first = block * reader.block_samples();
    const std::int64_t last = std::min(first + reader.block_samples(), reader.size()) - 1;
    result.damage.push_back(
        {reader.path(), first,
         "the checksum of samples " + std::to_string(first) + " to " + std::to_string(last) + " differs"});
  }
}

Verified verify_shard(const ShardTable& table, std::size_t shard) {
  Verified result;
  try {
    const ShardReader reader(open_shard(table, shard), std::make_shared<IoCounters>());
    result.samples = reader.size();
    result.bytes = static_cast<std::int64_t>(reader.header().file_bytes);
    if (reader.size() != table.shards()[shard].num_samples || reader.header().kind != table.spec().kind) {
      throw DataError(reader.path() + " is another kind of shard, or has another length, than the manifest says");
    }
    if (table.spec().kind == SampleKind::kEncoded) {
      verify_encoded(reader, result);
    } else {
      verify_fixed(reader, result);
    }
    for (std::int64_t i = 0; i < reader.size(); ++i) {
      if (reader.label(i) >= 0 && reader.label(i) < table.spec().num_classes) continue;
      result.damage.push_back({reader.path(), i, "its label " + std::to_string(reader.label(i)) + " is no class"});
    }
  } catch (const DataError& error) {
    result.damage.push_back({table.path(shard).string(), -1, error.what()});
  }
  return result;
}

}  // namespace

VerifyReport verify_dataset(const ShardTable& table, int threads,
                            const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::size_t shards = table.shards().size();
  std::vector<Verified> results(shards);
  std::atomic<std::size_t> next = 0;
  std::int64_t done = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t i = next++; i < shards; i = next++) {
      results[i] = verify_shard(table, i);
      const std::lock_guard lock(mutex);
      ++done;
      if (progress) progress(done, static_cast<std::int64_t>(shards));
    }
  };
  std::vector<std::jthread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back(work);
  work();
  workers.clear();  // joins

  VerifyReport report;
  report.shards = static_cast<std::int64_t>(shards);
  for (Verified& result : results) {
    report.samples += result.samples;
    report.bytes += result.bytes;
    report.damage.insert(report.damage.end(), result.damage.begin(), result.damage.end());
  }
  return report;
}

ExtractedSample extract_sample(const ShardTable& table, std::int64_t index) {
  if (index < 0 || index >= table.num_samples()) {
    throw UsageError("there is no sample " + std::to_string(index) + ": the dataset has " +
                     std::to_string(table.num_samples()) + ", counted from 0");
  }
  const auto [shard, sample] = table.locate(index);
  const ShardReader reader(open_shard(table, shard), std::make_shared<IoCounters>());
  ExtractedSample result;
  result.label = reader.label(sample);
  if (table.spec().kind == SampleKind::kEncoded) result.key = reader.read_keys()[sample];
  const auto block = reader.load_block(sample / reader.block_samples());
  if (block == nullptr) throw DataError(reader.damage(sample));
  const auto begin = block->begin() + sample % reader.block_samples() * reader.length(sample);
  result.bytes.assign(begin, begin + reader.length(sample));
  return result;
}

}  // namespace mn::data
