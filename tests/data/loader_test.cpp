// The loader: equal batches for any number of threads and ranks, epochs, resuming, large shards.
#include <set>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "tests/data/loader_fixture.hpp"

namespace mn::test {
namespace {

TEST_F(Loader, ThreadsAndPrefetchChangeNothing) {
  const auto expected = loader(true, 0, 1, {.batchsize = 37, .workers = 0});
  const Epoch first = read_epoch(*expected), second = read_epoch(*expected);
  EXPECT_NE(first, second);
  for (const int workers : {1, 2, 5}) {
    for (const int prefetch : {0, 1, 7}) {
      const auto found = loader(true, 0, 1, {.batchsize = 37, .workers = workers, .prefetch = prefetch});
      EXPECT_EQ(read_epoch(*found), first);
      EXPECT_EQ(read_epoch(*found), second);
    }
  }
}

TEST_F(Loader, RanksShareStepsOfOneOrder) {
  const auto one = loader(true, 0, 1, {.batchsize = 60});
  const Epoch expected = read_epoch(*one);
  for (const int ranks : {2, 3, 4}) {
    std::vector<std::multiset<std::int64_t>> steps(expected.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const auto mine = loader(true, rank, ranks, {.batchsize = 60 / ranks});
      EXPECT_EQ(mine->steps_per_epoch(), static_cast<std::int64_t>(expected.size()));
      const Epoch epoch = read_epoch(*mine);
      ASSERT_EQ(epoch.size(), expected.size());
      for (std::size_t k = 0; k < epoch.size(); ++k) steps[k].insert(epoch[k].begin(), epoch[k].end());
    }
    for (std::size_t k = 0; k < steps.size(); ++k) {
      EXPECT_EQ(steps[k], (std::multiset<std::int64_t>(expected[k].begin(), expected[k].end()))) << ranks << " ranks";
    }
  }
}

TEST_F(Loader, EverySampleComesOnceAnEpoch) {
  for (const bool shards : {true, false}) {
    for (const int ranks : {1, 3, 4}) {
      std::multiset<std::int64_t> seen;
      std::set<std::int64_t> steps;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto mine = loader(shards, rank, ranks, {.batchsize = 25});
        const Epoch epoch = read_epoch(*mine);
        steps.insert(static_cast<std::int64_t>(epoch.size()));
        EXPECT_EQ(*steps.begin(), mine->steps_per_epoch());
        for (const auto& batch : epoch) seen.insert(batch.begin(), batch.end());
      }
      EXPECT_EQ(steps.size(), 1u);
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), kSamples);
      EXPECT_EQ(static_cast<std::int64_t>(std::set<std::int64_t>(seen.begin(), seen.end()).size()), kSamples);
    }
  }
}

TEST_F(Loader, ABatchNamesItsSamples) {
  for (const bool shards : {true, false}) {
    const auto mine = loader(shards, 1, 3, {.batchsize = 25});
    while (const auto batch = mine->next()) EXPECT_EQ(batch->indices, labels_of(*batch));
  }
}

TEST_F(Loader, AnEmptyBatchKeepsItsShape) {
  const auto last = loader(
      true, 3, 4, {.batchsize = 125, .even_last = false});  // 1003 = 2 · 500 + 3: rank 3 gets none of the last step
  int steps = 0;
  while (const auto batch = last->next()) {
    check(*batch);
    EXPECT_EQ(batch->samples, ++steps == 3 ? 0 : 125);
  }
  EXPECT_EQ(steps, 3);
}

TEST_F(Loader, CountsEpochsAndTheirFractions) {
  const auto it = loader(true, 0, 1, {.batchsize = 500});
  EXPECT_EQ(it->dataset_size(), kSamples);
  EXPECT_EQ(it->epoch_detail(), 0);
  (void)it->next();
  EXPECT_EQ(it->epoch(), 0);
  EXPECT_DOUBLE_EQ(it->epoch_detail(), 500.0 / kSamples);
  (void)it->next();
  (void)it->next();
  EXPECT_EQ(it->epoch(), 1) << "as soon as the last batch is handed out";
  EXPECT_EQ(it->epoch_detail(), 1);
  EXPECT_EQ(it->next(), std::nullopt);
  EXPECT_EQ(it->epoch_detail(), 1);
  EXPECT_NE(it->next(), std::nullopt);
  EXPECT_GT(it->data_wait_s(), 0);
}

TEST_F(Loader, ResumesWhereBatchesWereHandedOut) {
  for (const bool shards : {true, false}) {
    const auto straight = loader(shards, 0, 2, {.batchsize = 30, .workers = 2, .prefetch = 3});
    for (int k = 0; k < 23; ++k) (void)straight->next();  // into the second epoch, with batches made ahead
    const auto state = nlohmann::json::parse(straight->state().dump());
    const auto resumed = loader(shards, 0, 2, {.batchsize = 30, .workers = 1, .prefetch = 5});
    for (int k = 0; k < 4; ++k) (void)resumed->next();
    resumed->load_state(state);
    EXPECT_EQ(resumed->epoch_detail(), straight->epoch_detail());
    EXPECT_EQ(read_epoch(*resumed), read_epoch(*straight));
    EXPECT_EQ(read_epoch(*resumed), read_epoch(*straight));
  }
}

TEST_F(Loader, ResumesInMidEpochWithOtherRanks) {
  std::multiset<std::int64_t> seen;
  nlohmann::json state;
  for (int rank = 0; rank < 2; ++rank) {
    const auto mine = loader(true, rank, 2, {.batchsize = 30});
    for (int k = 0; k < 7; ++k) {
      for (const std::int64_t label : labels_of(*mine->next())) seen.insert(label);
    }
    state = mine->state();
  }
  for (int rank = 0; rank < 3; ++rank) {
    const auto mine = loader(true, rank, 3, {.batchsize = 11});
    mine->load_state(state);
    for (const auto& batch : read_epoch(*mine)) seen.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(static_cast<std::int64_t>(seen.size()), kSamples);
  EXPECT_EQ(static_cast<std::int64_t>(std::set<std::int64_t>(seen.begin(), seen.end()).size()), kSamples);
}

TEST_F(Loader, AStateAtTheEndOfAnEpochBeginsTheNext) {
  const auto straight = loader(true, 0, 1, {.batchsize = 500});
  for (int k = 0; k < 3; ++k) (void)straight->next();
  const auto resumed = loader(true, 0, 1, {.batchsize = 500});
  resumed->load_state(straight->state());
  EXPECT_EQ(straight->next(), std::nullopt);
  EXPECT_EQ(read_epoch(*resumed), read_epoch(*straight));
}

TEST_F(Loader, RanksWalkTheirParts) {
  for (const int ranks : {1, 3, 4}) {
    std::vector<std::int64_t> seen;
    std::set<std::int64_t> steps;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto part = std::make_shared<SubDataset>(std::shared_ptr<const Dataset>(open_dataset(path())), rank, ranks,
                                                     ScatterOptions{});
      DataLoader mine(part, {.batchsize = 20, .by_part = true, .workers = 2});
      const Epoch epoch = read_epoch(mine);
      EXPECT_EQ(read_epoch(mine), epoch);
      steps.insert(static_cast<std::int64_t>(epoch.size()));
      for (const auto& batch : epoch) seen.insert(seen.end(), batch.begin(), batch.end());
    }
    EXPECT_EQ(steps.size(), 1u) << "the same number of steps on all ranks";
    ASSERT_EQ(static_cast<std::int64_t>(seen.size()), kSamples);
    for (std::int64_t i = 0; i < kSamples; ++i) EXPECT_EQ(seen[i], i) << "stored order, rank after rank";
  }
}

/// Shards in an order of lanes, as for a dataset far larger than memory.
class LikeLargeShards final : public Dataset {
 public:
  LikeLargeShards(const std::string& path, std::int64_t block_samples)
      : actual_(open_dataset(path)), block_samples_(block_samples) {}

 private:
  std::int64_t do_size() const override { return actual_->size(); }
  const SampleSpec& do_spec() const override { return actual_->spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override {
    actual_->read(indices, out, damaged);
  }
  IoStats do_io() const override { return actual_->io(); }
  StorageLayout do_layout() const override {
    return {std::int64_t{1} << 30, actual_->layout().files, block_samples_, actual_->layout().index_bytes};
  }

  std::shared_ptr<Dataset> actual_;
  std::int64_t block_samples_;
};

TEST(LargeLoader, LanesOverManyShardsGiveTheSameStepsToAnyRanks) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "shards").string();
  data::write_fixed_dataset(*make_dataset(), {.out = path, .split = "train", .shard_bytes = 30}, {});  // 3 samples each
  EXPECT_GT(open_dataset(path)->layout().files, 256);
  std::vector<Epoch> expected;
  for (const int ranks : {1, 2, 3, 6}) {
    std::vector<std::vector<std::multiset<std::int64_t>>> steps(2);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto large = std::make_shared<LikeLargeShards>(path, 2);
      const auto part = std::make_shared<SubDataset>(large, rank, ranks, ScatterOptions{.shuffle = true, .seed = 4});
      DataLoader mine(part, {.batchsize = 60 / ranks, .workers = 3, .prefetch = 5});
      EXPECT_GT(mine.state().at("lanes"), 1);
      for (auto& epoch : steps) {
        const Epoch found = read_epoch(mine);
        epoch.resize(found.size());
        for (std::size_t k = 0; k < found.size(); ++k) epoch[k].insert(found[k].begin(), found[k].end());
      }
      EXPECT_LE(large->io().opens, large->layout().files) << "no file is opened twice";
    }
    if (expected.empty()) {
      for (const auto& epoch : steps) {
        expected.emplace_back();
        for (const auto& step : epoch) expected.back().emplace_back(step.begin(), step.end());
      }
      EXPECT_NE(expected[0], expected[1]);
    }
    for (std::size_t e = 0; e < steps.size(); ++e) {
      std::set<std::int64_t> seen;
      ASSERT_EQ(steps[e].size(), expected[e].size());
      for (std::size_t k = 0; k < steps[e].size(); ++k) {
        EXPECT_EQ(std::vector<std::int64_t>(steps[e][k].begin(), steps[e][k].end()), expected[e][k])
            << ranks << " ranks";
        seen.insert(steps[e][k].begin(), steps[e][k].end());
      }
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), kSamples);
    }
  }
}

TEST_F(Loader, TakesAWholeDatasetWithoutRanks) {
  DataLoader it(std::shared_ptr<const Dataset>(make_dataset()), {.batchsize = 100});
  const Epoch epoch = read_epoch(it);
  EXPECT_EQ(epoch.size(), 11u);
  EXPECT_EQ(epoch[0][5], 5) << "no shuffle unless asked for";
}

TEST_F(Loader, WorksWithoutASingleByte) {
  DataLoader it(std::shared_ptr<const Dataset>(create_empty_dataset(*make_dataset())), {.batchsize = 500});
  const auto batch = it.next();
  EXPECT_EQ(batch->data.sizes(), (std::vector<std::int64_t>{500, 0}));
}

TEST_F(Loader, CountsBytesAndFilesThatAreRead) {
  const auto it = loader(true, 0, 1, {.batchsize = 100, .workers = 1});
  (void)read_epoch(*it);
  const LoaderStats stats = it->stats();
  EXPECT_GE(stats.bytes, kSamples * 10);  // two bytes and a label each
  EXPECT_GE(stats.opens, 2);
  EXPECT_EQ(loader(false, 0, 1, {.batchsize = 100})->stats().bytes, 0);
}

TEST_F(Loader, RejectsBadOptions) {
  EXPECT_THROW(loader(true, 0, 1, {.batchsize = 0}), UsageError);
  EXPECT_THROW(loader(true, 0, 1, {.batchsize = 2000, .drop_last = true}), UsageError);
  EXPECT_THROW(loader(true, 0, 1, {.batchsize = 1, .workers = -1}), UsageError);
  EXPECT_THROW(loader(true, 0, 1, {.batchsize = 1, .shuffle = true, .by_part = true}), UsageError);
}

}  // namespace
}  // namespace mn::test
