// The loader where things go wrong: errors, damaged samples, an end with work in flight, a budget in bytes.
#include <atomic>
#include <chrono>
#include <thread>

#include <mn/core/error.hpp>
#include <mn/data/shard_reader.hpp>

#include "tests/data/loader_fixture.hpp"

namespace mn::test {
namespace {

using testing::HasSubstr;

TEST_F(Loader, ErrorsOfWorkersReachTheCaller) {
  LoaderOptions options{.batchsize = 100, .workers = 2};
  options.transform = [](const RawBatch& batch, std::vector<SampleError>& damaged) -> at::Tensor {
    for (const std::int64_t i : batch.indices) {
      if (i == 500) throw DataError("no luck with 500");
    }
    return default_transform(batch, damaged);
  };
  const auto it = loader(true, 0, 1, options);
  EXPECT_EQ(message_of<DataError>([&] { (void)read_epoch(*it); }), "no luck with 500");
}

TEST_F(Loader, ADamagedSampleIsNamedOrReplaced) {
  const data::ShardTable table = data::read_manifest(path());
  const auto shard = data::open_shard(table, 2);
  flip_byte(table.path(2), shard.header.fields[0].values.address + 3);

  const auto strict = loader(true, 0, 1, {.batchsize = 100});
  EXPECT_THAT(message_of<DataError>([&] { (void)read_epoch(*strict); }), HasSubstr(table.path(2).string()));

  // Fixed samples share a checksum, here all of a shard: all of them are replaced, the same by any number of threads.
  const std::int64_t in_shard = table.shards()[2].num_samples;
  std::vector<Epoch> epochs;
  for (const int workers : {1, 3}) {
    const auto lenient = loader(true, 0, 1, {.batchsize = 100, .workers = workers, .max_corrupt = in_shard});
    epochs.push_back(read_epoch(*lenient));
    EXPECT_EQ(lenient->corrupt(), in_shard);
  }
  EXPECT_EQ(epochs[0], epochs[1]);
  for (const auto& batch : epochs[0]) {
    for (const std::int64_t label : batch) EXPECT_NE(table.locate(label).first, 2u);
  }
}

TEST_F(Loader, AnUndecodableSampleIsReplaced) {
  LoaderOptions options{.batchsize = 100, .shuffle = false, .workers = 3, .max_corrupt = 2};
  options.transform = [](const RawBatch& batch, std::vector<SampleError>& damaged) {
    for (std::size_t k = 0; k < batch.indices.size(); ++k) {
      if (batch.indices[k] == 150 || batch.indices[k] == 151) damaged.push_back({static_cast<std::int64_t>(k), "bad"});
    }
    return default_transform(batch, damaged);
  };
  const auto it = loader(true, 0, 1, options);
  const Epoch epoch = read_epoch(*it);
  EXPECT_EQ(epoch[1][49], 149);
  EXPECT_NE(epoch[1][50], 150);
  EXPECT_NE(epoch[1][51], 151);
  EXPECT_NE(epoch[1][50], epoch[1][51]);
  EXPECT_EQ(epoch[1].size(), 100u) << "a batch is never shortened";
  EXPECT_EQ(it->corrupt(), 2);
  EXPECT_EQ(read_epoch(*it), epoch) << "the next epoch has the same ones";
  EXPECT_EQ(it->corrupt(), 2);
  options.max_corrupt = 1;
  const auto strict = loader(true, 0, 1, options);
  EXPECT_THAT(message_of<DataError>([&] { (void)read_epoch(*strict); }),
              HasSubstr("2 damaged samples in an epoch, 1 are"));
}

TEST_F(Loader, GoesAwayWithWorkInFlight) {
  std::atomic<int> begun = 0;
  std::atomic<bool> leaving = false;
  std::atomic<int> begun_late = 0;
  LoaderOptions options{.batchsize = 10, .workers = 3, .prefetch = 60};
  options.transform = [&](const RawBatch& batch, std::vector<SampleError>& damaged) {
    ++begun;
    if (leaving) ++begun_late;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return default_transform(batch, damaged);
  };
  auto it = loader(true, 0, 1, options);
  (void)it->next();
  (void)it->next();  // the first one told how large batches are: now many are queued
  leaving = true;
  it.reset();
  EXPECT_LE(begun_late, options.workers) << "what was not begun is left alone";
  EXPECT_LT(begun, 60);
}

TEST_F(Loader, QueuesNoMoreThanItsBudget) {
  // A batch of 100 takes 200 bytes, 800 as float32, and 800 twice for its labels.
  for (const auto& [budget, expected] : {std::pair<std::int64_t, int>{1, 1}, {5500, 2}, {1 << 20, 7}}) {
    std::atomic<int> made = 0;
    LoaderOptions options{.batchsize = 100, .workers = 2, .prefetch = 7, .prefetch_bytes = budget};
    options.transform = [&](const RawBatch& batch, std::vector<SampleError>& damaged) {
      ++made;
      return default_transform(batch, damaged);
    };
    const auto it = loader(true, 0, 1, options);
    for (int handed_out = 1; handed_out <= 3; ++handed_out) {
      (void)it->next();
      const int most = handed_out + (handed_out == 1 ? 1 : expected);
      for (int wait = 0; wait < 200 && made < most; ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(made, most) << "budget " << budget;
    }
  }
}

}  // namespace
}  // namespace mn::test
