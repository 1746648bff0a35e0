// The loader and errors: errors, damaged samples, an end with work in flight, a budget in bytes.
#include <atomic>
#include <chrono>
#include <thread>

#include <mn/core/error.hpp>
#include <mn/data/shard_reader.hpp>
#include <mn/data/shard_writer.hpp>

#include "tests/data/loader_fixture.hpp"
#include "tests/support/resident_bytes.hpp"

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

  // Fixed samples share a checksum, here all of a shard: all damaged samples are replaced, alike for any number of
  // threads.
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
  options.max_corrupt = 0;
  const auto table = data::read_manifest(path());
  const std::string error = message_of<DataError>([&] { (void)read_epoch(*loader(true, 0, 1, options)); });
  EXPECT_THAT(error, HasSubstr(table.path(table.locate(150).first).string()));
  EXPECT_THAT(error, HasSubstr("(bad)"));
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
  EXPECT_LE(begun_late, 3) << "what was not begun is left alone";
  EXPECT_LT(begun, 60);
}

TEST_F(Loader, MakesNoMoreThanItsBudget) {
  // A batch of 100 takes 1000 bytes when read, 800 as float32, and 800 for labels: 2600 in work, 1600 ready.
  for (const auto& [budget, expected] : {std::pair<std::int64_t, int>{1, 0}, {4200, 1}, {6000, 2}, {1 << 20, 7}}) {
    std::atomic<int> made = 0;
    LoaderOptions options{.batchsize = 100, .workers = 2, .prefetch = 7, .prefetch_bytes = budget};
    options.transform = [&](const RawBatch& batch, std::vector<SampleError>& damaged) {
      ++made;
      return default_transform(batch, damaged);
    };
    const auto it = loader(false, 0, 1, options);  // of samples in memory, so the dataset holds nothing beside
    for (int handed_out = 1; handed_out <= 3; ++handed_out) {
      (void)it->next();
      const int most = handed_out + expected;
      for (int wait = 0; wait < 200 && made < most; ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(made, most) << "budget " << budget;
    }
  }
}

/// A dataset again and again: a test writes few samples.
class Repeated final : public Dataset {
 public:
  Repeated(std::shared_ptr<const Dataset> samples, std::int64_t times) : samples_(std::move(samples)), times_(times) {}

 private:
  std::int64_t do_size() const override { return samples_->size() * times_; }
  const SampleSpec& do_spec() const override { return samples_->spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override {
    std::vector<std::int64_t> within(indices.begin(), indices.end());
    for (std::int64_t& index : within) index %= samples_->size();
    samples_->read(within, out, damaged);
  }
  StorageLayout do_layout() const override {
    StorageLayout layout = samples_->layout();
    layout.bytes *= times_;
    return layout;
  }

  std::shared_ptr<const Dataset> samples_;
  std::int64_t times_;
};

TEST_F(Loader, HoldsNoMoreThanItsBudget) {
  constexpr std::int64_t kSampleFloats = 4 << 20, kBatch = 4, kBatches = 8;  // 64 MiB a batch
  const SampleSpec spec = {{{.name = "x", .dtype = DType::kFloat32, .shape = {kSampleFloats}}}};
  const std::string folder = (folder_.path() / "large").string();
  {
    ShardWriter writer(folder, spec, {.shard_bytes = 64 << 20});
    const std::vector<float> sample(kSampleFloats, 1.0F);
    for (int i = 0; i < kBatch; ++i) writer.add({sample});
    writer.finish();
  }
  const std::shared_ptr<const Dataset> few = open_dataset(folder);
  (void)DataLoader(few, {.batchsize = 1, .workers = 1, .prefetch = 0}).next();
  for (const std::int64_t budget : {std::int64_t{128} << 20, std::int64_t{320} << 20}) {
    if (!reset_peak_bytes()) GTEST_SKIP() << "the kernel does not tell the peak of memory";
    const std::int64_t before = resident_bytes();
    DataLoader it(std::shared_ptr<const Dataset>(std::make_shared<Repeated>(few, kBatches)),
                  {.batchsize = kBatch, .shuffle = true, .workers = 3, .prefetch_bytes = budget});
    std::int64_t batches = 0;
    while (const auto batch = it.next()) {
      ++batches;
      EXPECT_EQ(batch->data.size(0), kBatch);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(batches, kBatches);
    EXPECT_LE(static_cast<double>(peak_bytes() - before), 1.1 * static_cast<double>(budget));
  }
}

TEST_F(Loader, LeavesAPartOfItsBudgetToWhatTheDatasetHolds) {
  constexpr std::int64_t kBytes = 20'000, kBudget = 2'000'000;
  const std::string folder = (folder_.path() / "blocks").string();
  {
    ShardWriter writer(folder, {{{.name = "x", .shape = {kBytes}}}}, {});
    for (int i = 0; i < 200; ++i) writer.add({std::vector<std::uint8_t>(kBytes)});
    writer.finish();
  }
  const auto dataset = open_dataset(folder);
  DataLoader it(dataset, {.batchsize = 4, .shuffle = true, .workers = 2, .prefetch_bytes = kBudget});
  while (it.next()) EXPECT_LE(dataset->io().held, kBudget / 4 * 3);
  EXPECT_GT(dataset->io().held, 0);
}

TEST_F(Loader, MakesTheNextEpochOfAnEvaluationWhenItIsAskedFor) {
  for (const bool shuffle : {false, true}) {
    std::atomic<int> made = 0;
    LoaderOptions options{.batchsize = 100, .shuffle = shuffle, .workers = 2, .prefetch = 4};
    options.transform = [&](const RawBatch& batch, std::vector<SampleError>& damaged) {
      ++made;
      return default_transform(batch, damaged);
    };
    const auto it = loader(true, 0, 1, options);
    for (int epoch = 1; epoch <= 2; ++epoch) {
      const auto batches = static_cast<int>(read_epoch(*it).size());
      EXPECT_EQ(batches, 11);
      const int expected = epoch * batches + (shuffle ? 4 : 0);  // training goes on
      for (int wait = 0; wait < 200 && made < expected; ++wait)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(made, expected);
    }
  }
}

}  // namespace
}  // namespace mn::test
