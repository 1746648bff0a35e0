// shard_bench read DIR THREADS: every sample of a dataset once, in the order of an epoch, fixed ones 64 and encoded
// ones 1 at a time; again and again for a second, each time with files closed and nothing kept but the buffers. Prints
// samples per second. shard_bench index DIR: makes 1,000 shards of 1,300 samples in DIR if it is empty, then times
// index and scatter as 1,024 ranks would do them, one rank after another.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/order.hpp>
#include <mn/data/sampler.hpp>
#include <mn/data/scatter.hpp>
#include <mn/data/shard_writer.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using namespace mn;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Samples per second of one epoch, a thread for each buffer.
double read_epoch(const Dataset& dataset, std::int64_t epoch, std::vector<RawSamples>& buffers) {
  const std::int64_t n = dataset.size();
  const std::int64_t batch = dataset.spec().kind == SampleKind::kFixed ? 64 : 1;
  const data::EpochOrder order(n, data::default_order(n, dataset.stored_bytes(), true), 1, epoch);
  std::atomic<std::int64_t> next = 0;
  const auto work = [&](RawSamples& out) {
    std::vector<std::int64_t> indices;
    for (std::int64_t first = next.fetch_add(batch); first < n; first = next.fetch_add(batch)) {
      indices.clear();
      for (std::int64_t p = first; p < std::min(first + batch, n); ++p) indices.push_back(order(p));
      dataset.read(indices, out);
    }
  };
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> workers;
    for (RawSamples& buffer : buffers) workers.emplace_back([&] { work(buffer); });
  }
  return static_cast<double>(n) / ms_since(begin) * 1e3;
}

void run_read(const std::string& folder, int threads) {
  const std::string table = open_dataset(folder)->table();
  std::vector<RawSamples> buffers(threads);
  (void)read_epoch(*open_table(table), 0, buffers);  // the page cache is warm from here on
  double samples = 0, seconds = 0;
  for (std::int64_t epoch = 1; seconds < 1; ++epoch) {
    const auto dataset = open_table(table);
    const auto n = static_cast<double>(dataset->size());
    samples += n;
    seconds += n / read_epoch(*dataset, epoch, buffers);
  }
  std::printf("%.0f\n", samples / seconds);
}

void make_many_shards(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::vector<data::ShardInfo> shards;
  for (std::size_t i = 0; i < 1000; ++i) {
    data::ShardContent content;
    content.shape = {4};
    content.bytes.resize(1300 * 4);
    content.labels.assign(1300, static_cast<std::int32_t>(i));
    shards.push_back(data::write_shard(folder / data::shard_name("train", i, 1000), content));
  }
  SampleSpec spec;
  spec.shape = {4};
  spec.num_classes = 1000;
  data::write_manifest(data::ShardTable(std::filesystem::absolute(folder).string(), "train", spec, shards));
}

void run_index(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / data::kManifestName)) make_many_shards(folder);
  const auto begin = Clock::now();
  const auto dataset = open_dataset(folder.string());
  const std::int64_t n = dataset->size();
  const double root_ms = ms_since(begin);
  const std::string table = dataset->table();
  const double table_ms = ms_since(begin) - root_ms;

  constexpr int kRanks = 1024;
  double most = 0, sum = 0;
  std::int64_t samples = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto rank_begin = Clock::now();
    const SubDataset part(std::shared_ptr<const Dataset>(open_table(table)), rank, kRanks, {.shuffle = true});
    GlobalSampler sampler(part.global_size(), part.fingerprint(),
                          {.batchsize = 32,
                           .rank = rank,
                           .ranks = kRanks,
                           .order = data::default_order(n, std::int64_t{140} << 30, true)});
    samples += static_cast<std::int64_t>(sampler.next()->indices.size());
    const double ms = ms_since(rank_begin);
    most = std::max(most, ms);
    sum += ms;
  }
  std::printf("%lld samples in 1,000 shards; table of %zu bytes\n", static_cast<long long>(n), table.size());
  std::printf("root: manifest and 1,000 headers %.1f ms, table %.1f ms\n", root_ms, table_ms);
  std::printf("a rank: table, part and first step %.2f ms on average, %.2f ms at most (first steps: %lld samples)\n",
              sum / kRanks, most, static_cast<long long>(samples));
  std::printf("index and scatter, but for the broadcast: %.1f ms\n", root_ms + table_ms + most);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 4 && std::strcmp(argv[1], "read") == 0) return run_read(argv[2], std::stoi(argv[3])), 0;
    if (argc == 3 && std::strcmp(argv[1], "index") == 0) return run_index(argv[2]), 0;
    std::fprintf(stderr, "usage: shard_bench read DIR THREADS | index DIR\n");
    return 2;
  } catch (const mn::Error& error) {
    std::fprintf(stderr, "shard_bench: %s\n", error.what());
    return 1;
  }
}
