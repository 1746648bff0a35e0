// The reads of all ranks from HDF5 files as they are, in a shuffled epoch, through a cache like the dataset's. The
// order and the cache alone: no file is there.
#include <cstdio>
#include <set>

#include <gtest/gtest.h>

#include <mn/data/hdf5_table.hpp>
#include <mn/data/lru_cache.hpp>
#include <mn/data/open_files.hpp>
#include <mn/data/sampler.hpp>

namespace mn::data {
namespace {

/// Made-up files of samples x in chunks of `chunk` samples, and of contiguous labels.
Hdf5Table chunked_files(const std::vector<std::int64_t>& lengths, std::int64_t chunk, std::int64_t sample_bytes) {
  const SampleSpec spec{
      {{.name = "x", .dtype = DType::kUInt8, .shape = {sample_bytes}}, {.name = "y", .dtype = DType::kInt64}}};
  std::vector<Hdf5File> files;
  for (const std::int64_t samples : lengths) {
    Hdf5File file{.path = "a.h5", .num_samples = samples, .bytes = std::int64_t{1} << 60, .modified_ns = 0};
    file.arrays.resize(2);
    file.arrays[0].chunk = {chunk, sample_bytes};
    file.arrays[0].fill.resize(1);
    for (std::int64_t i = 0; i < samples; i += chunk) file.arrays[0].chunks.add({});
    file.arrays[1].fill.resize(8);
    files.push_back(file);
  }
  return {"/f", "train", spec, files};
}

/// Bytes of x that ranks read for each used byte. With `even_last` the last two steps share the remaining samples, and
/// ranks divide such steps differently: each rank then reads some chunks of foreign lanes.
double read_ratio(const Hdf5Table& table, const OrderOptions& order, int ranks, bool even_last = false) {
  const std::int64_t chunk = table.files()[0].arrays[0].chunk[0];
  const std::int64_t y_block = table.files()[0].arrays[1].block_samples(table.spec()[1]);
  const std::int64_t bytes = table.spec()[0].sample_bytes();
  std::int64_t read = 0;
  std::int64_t used = 0;
  for (const int rank : std::set<int>{0, ranks / 2, ranks - 1}) {
    LruCache<int> cache(block_room(table.layout(), {}, ranks));
    const auto take = [&](std::size_t file, std::int64_t sample, std::uint64_t field, std::int64_t in_block,
                          std::int64_t sample_bytes, std::int64_t& counter) {
      const std::int64_t first = sample / in_block * in_block;
      const std::int64_t samples = std::min(in_block, table.files()[file].num_samples - first);
      (void)cache.get(file << 46 | field << 40 | static_cast<std::uint64_t>(first), [&]() -> LruCache<int>::NewValue {
        counter += samples;
        return {std::make_shared<const int>(0), samples * sample_bytes, samples};
      });
    };
    GlobalSampler sampler(table.num_samples(), 1,
                          {.batchsize = 32, .rank = rank, .ranks = ranks, .even_last = even_last, .order = order});
    std::int64_t of_y = 0;
    while (const auto step = sampler.next()) {
      used += std::ssize(step->indices);
      for (const std::int64_t index : step->indices) {
        const auto [file, sample] = table.locate(index);
        take(file, sample, 0, chunk, bytes, read);
      }
      for (const std::int64_t index : step->indices) {  // field after field, as the dataset reads
        const auto [file, sample] = table.locate(index);
        take(file, sample, 1, y_block, 8, of_y);
      }
    }
  }
  return static_cast<double>(read) / static_cast<double>(used);
}

class IndexOrder : public testing::TestWithParam<std::int64_t> {};

TEST_P(IndexOrder, ReadsEachChunkAboutOnce) {
  const std::int64_t chunk = GetParam();
  for (const std::int64_t sample_bytes : {4096, 110'000}) {
    for (const int ranks : {1, 2, 3, 4, 7, 8, 16, 60, 96, 1024}) {
      // 16 chunks a rank: fewer can't be divided by anyone. None of the files ends with a whole chunk.
      const std::int64_t n = std::max<std::int64_t>(16 * chunk * ranks, 100'000);
      const Hdf5Table table = chunked_files({n / 3 + 1, n - n / 3 - 1}, chunk, sample_bytes);
      const OrderOptions order = default_order(table.num_samples(), table.layout(), true, ranks);
      const double ratio = read_ratio(table, order, ranks);
      std::printf("%s%.2f", ranks == 1 ? "" : " | ", ratio);
      EXPECT_LE(ratio, 1.15) << ranks << " ranks, " << n << " samples of " << sample_bytes << " bytes, " << order.lanes
                             << " lanes, " << order.windows << " windows";
    }
    std::printf("   bytes read for each one used: chunks of %lld samples of %lld bytes\n",
                static_cast<long long>(chunk), static_cast<long long>(sample_bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Chunks, IndexOrder, testing::Values(10, 100, 1000, 10'000));

TEST(IndexOrders, OfDataOfUsualSizes) {
  struct Case {
    std::int64_t n, chunk, bytes;
    int ranks;
    double most;
  };
  for (const Case& each : {Case{100'000, 1000, 110'000, 4, 1.15},
                           {1'000'000, 1000, 12'288, 96, 1.15},
                           // If there are about as many ranks as chunks, ranks share chunks: then two reads of each do.
                           {1'000'000, 10'000, 12'288, 96, 2.0},
                           {100'000, 10'000, 110'000, 1, 1.15},
                           {400'000, 1000, 4096, 8, 1.15}}) {
    const Hdf5Table table = chunked_files({each.n}, each.chunk, each.bytes);
    const OrderOptions order = default_order(each.n, table.layout(), true, each.ranks);
    EXPECT_LE(read_ratio(table, order, each.ranks), each.most)
        << each.n << " samples in chunks of " << each.chunk << ", " << each.ranks << " ranks, " << order.lanes
        << " lanes, " << order.windows << " windows; before "
        << read_ratio(table, default_order(each.n, table.layout(), true), each.ranks);
    EXPECT_LE(read_ratio(table, order, each.ranks, true),
              each.most + 0.7 * static_cast<double>(each.chunk) * each.ranks / each.n);
  }
}

// Training has equal minibatches on any number of ranks, if chunks permit.
TEST(IndexOrders, DoNotDependOnRanksUnlessChunksAreLong) {
  const Hdf5Table table = chunked_files({1'000'000}, 100, 4096);
  const OrderOptions order = default_order(1'000'000, table.layout(), true);
  for (const int ranks : {2, 3, 4, 7, 8, 16, 48}) {
    EXPECT_EQ(default_order(1'000'000, table.layout(), true, ranks), order) << ranks;
  }
}

}  // namespace
}  // namespace mn::data
