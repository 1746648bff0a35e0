// Datasets joined, and subsets: the same samples by read(), by one field, and through a table.
#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/data/function_dataset.hpp>
#include <mn/data/joined_dataset.hpp>
#include <mn/data/sampler.hpp>
#include <mn/data/subset.hpp>

#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The labels that read() and read_field() return, which must agree.
std::vector<std::int64_t> labels_at(const Dataset& dataset, const std::vector<std::int64_t>& indices) {
  RawSamples samples;
  dataset.read(indices, samples);
  const RawColumn labels = dataset.read_field(indices, 1);
  EXPECT_TRUE(std::ranges::equal(labels.bytes, samples.columns[1].bytes));
  return labels_of(samples);
}

class JoinedDatasetTest : public Shards {
 protected:
  JoinedDatasetTest() {
    (void)make_fixed_shards(folder_.path() / "a", 23);
    (void)make_fixed_shards(folder_.path() / "b", 9);
  }
  std::shared_ptr<Dataset> open(const std::string& name) const {
    return open_dataset((folder_.path() / name).string());
  }
};

TEST_F(JoinedDatasetTest, HasTheSamplesOfItsPartsInOrder) {
  const JoinedDataset joined({open("a"), open("b")});
  EXPECT_EQ(joined.size(), 32);
  EXPECT_THAT(labels_at(joined, {31, 0, 22, 23, 4, 24}), ElementsAre(8 % 5, 0, 22 % 5, 0, 4, 1));
  joined.read(std::vector<std::int64_t>{25, 3}, out_);
  EXPECT_EQ(out_.sample(0, 0)[1], value_of(2, 1));
  EXPECT_EQ(out_.sample(0, 1)[1], value_of(3, 1));
  EXPECT_THAT(joined.where(25), HasSubstr("/b/"));
  EXPECT_THROW(labels_at(joined, {32}), ArgumentError);
}

TEST_F(JoinedDatasetTest, ATableOpensTheSameSamplesOnAnotherRank) {
  const JoinedDataset joined({open("a"), open("b")}, {0.75, 0.25});
  ASSERT_EQ(joined.format(), kShardsFormat);
  const auto other = open_table(joined.table());
  EXPECT_EQ(other->fingerprint(), joined.fingerprint());
  EXPECT_THAT(labels_at(*other, {31, 22}), ElementsAre(3, 2));
  const auto weights = other->weights();
  ASSERT_EQ(weights.size(), 32U);
  EXPECT_DOUBLE_EQ(weights[0], 0.75 / 23);
  EXPECT_DOUBLE_EQ(weights[31], 0.25 / 9);

  const auto part = subset(open("a"), {20, 3, 3});
  const auto its_table = open_table(part->table());
  EXPECT_EQ(its_table->fingerprint(), part->fingerprint());
  EXPECT_NE(part->fingerprint(), subset(open("a"), {20, 3, 4})->fingerprint());
  EXPECT_THAT(labels_at(*its_table, {2, 0}), ElementsAre(3, 0));
}

TEST_F(JoinedDatasetTest, FingerprintsTellOtherPartsAndAnotherOrder) {
  const auto hash_of = [&](const std::string& first, const std::string& second) {
    return JoinedDataset({open(first), open(second)}).fingerprint();
  };
  const std::set<std::uint64_t> hashes = {hash_of("a", "b"), hash_of("b", "a"), hash_of("a", "a"), hash_of("b", "b")};
  EXPECT_EQ(hashes.size(), 4U);
  EXPECT_NE(subset(open("a"), {3, 4})->fingerprint(), subset(open("b"), {3, 4})->fingerprint());
}

/// A dataset in 3 files of 1000 bytes, which notes what it is told.
class Recorder final : public Dataset {
 public:
  int ranks = 0;
  mutable std::int64_t most_bytes = 0;
  std::string folder;

 private:
  std::int64_t do_size() const override { return 10; }
  const SampleSpec& do_spec() const override { return spec_; }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>*) const override {
    out.reset(spec_, std::ssize(indices));
  }
  IoStats do_io() const override { return {.opens = 3, .bytes = 50, .held = 7}; }
  StorageLayout do_layout() const override { return {.bytes = 1000, .files = 3, .block_samples = 5, .index_bytes = 8}; }
  void do_share(int count) override { ranks = count; }
  void do_hold_at_most(std::int64_t bytes) const override { most_bytes = bytes; }
  void do_stage(const StageOptions& options, std::shared_ptr<const StageNode>) override { folder = options.folder; }

  SampleSpec spec_ = labeled({.shape = {0}}, 0);
};

TEST_F(JoinedDatasetTest, PartsAreToldWhatTheWholeIsTold) {
  const auto first = std::make_shared<Recorder>(), second = std::make_shared<Recorder>();
  const auto empty = create_empty_dataset(*first);  // in memory
  JoinedDataset joined({empty, subset(first, {1, 2}), second});
  joined.share(4);
  joined.hold_at_most(300);
  joined.stage({.folder = "copies"}, nullptr);
  for (const auto& part : {first, second}) {
    EXPECT_EQ(part->ranks, 4);
    EXPECT_EQ(part->most_bytes, 100) << "of three parts";
    EXPECT_EQ(part->folder, "copies");
  }
  EXPECT_EQ(joined.io().opens, 6);
  EXPECT_EQ(joined.io().bytes, 100);
  EXPECT_EQ(joined.io().held, 14);
  EXPECT_EQ(joined.layout().bytes, empty->layout().bytes + 1200) << "a fifth of the first, and the second";
  EXPECT_EQ(joined.layout().files, 6);
  EXPECT_EQ(joined.layout().block_samples, 5);
  EXPECT_EQ(joined.layout().index_bytes, 16);
}

TEST_F(JoinedDatasetTest, AMixtureDrawsItsShares) {
  const JoinedDataset joined({open("a"), open("b"), subset(open("a"), {5, 6})}, {0.6, 0.3, 0.1});
  DrawSampler sampler(joined.size(), 0, {.weights = joined.weights(), .samples = 5000},
                      {.batchsize = 100, .order = {}});
  double counts[3] = {};
  for (int epoch = 0; epoch < 10; ++epoch) {
    while (const auto step = sampler.next()) {
      for (const std::int64_t sample : step->indices) counts[sample < 23 ? 0 : sample < 32 ? 1 : 2] += 1.0 / 50000;
    }
  }
  EXPECT_NEAR(counts[0], 0.6, 0.01);
  EXPECT_NEAR(counts[1], 0.3, 0.01);
  EXPECT_NEAR(counts[2], 0.1, 0.01);
}

TEST_F(JoinedDatasetTest, ASubsetIsChosenOnceAtFirstUse) {
  int calls = 0;
  const auto odd = choose_subset(open("a"), [&](const Dataset& all) {
    ++calls;
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 1; i < all.size(); i += 2) indices.push_back(i);
    return indices;
  });
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(odd->size(), 11);
  EXPECT_THAT(labels_at(*odd, {10, 0}), ElementsAre(21 % 5, 1));
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(odd->where(1), HasSubstr("sample 3"));
  const auto both = std::make_shared<JoinedDataset>(std::vector{open("a"), open("b")}, std::vector{0.75, 0.25});
  EXPECT_THAT(subset(both, {31, 0})->weights(), ElementsAre(0.25 / 9, 0.75 / 23));
  EXPECT_THAT(
      [&] {
        (void)subset(open("a"), {3, 23})->size();
      },
      ThrowsMessage<ArgumentError>(HasSubstr("sample 23 of a dataset of 23")));
  EXPECT_THROW((void)choose_subset(open("a"), {}), ArgumentError);
}

TEST_F(JoinedDatasetTest, NumbersOfASubsetAreReadFromAFile) {
  const auto file = folder_.path() / "few.txt";
  std::ofstream(file) << "20\n3\n 3\r\n";
  EXPECT_THAT(read_indices(file), ElementsAre(20, 3, 3));
  for (const char* const bad : {"x", "-1", "2.0", "99999999999999999999"}) {
    std::ofstream(file) << "1\n" << bad << '\n';
    EXPECT_THAT([&] { (void)read_indices(file); }, ThrowsMessage<DataError>(HasSubstr("\"" + std::string(bad))));
  }
  EXPECT_THROW((void)read_indices(folder_.path() / "none.txt"), DataError);
  std::ofstream(file) << "0\n23\n";
  EXPECT_THAT([&] { (void)read_indices(file, 23); },
              ThrowsMessage<DataError>(HasSubstr(file.string() + " has sample 23 of a dataset of 23")));
}

TEST_F(JoinedDatasetTest, PartsInMemoryHaveNoTable) {
  const JoinedDataset joined({open("a"), make_fixed(4)});
  EXPECT_EQ(joined.format(), "");
  EXPECT_EQ(joined.table(), "");
  EXPECT_THAT(labels_at(joined, {26, 0}), ElementsAre(3, 0));
  EXPECT_EQ(subset(make_fixed(4), {1})->table(), "");
}

TEST_F(JoinedDatasetTest, DamagedSamplesKeepTheirPlaces) {
  const auto broken =
      make_dataset(9, open("a")->spec(), [](std::int64_t, SampleWriter&) { throw DataError("broken"); });
  const JoinedDataset joined({open("a"), broken});
  std::vector<SampleError> damaged;
  joined.read(std::vector<std::int64_t>{0, 24, 1}, out_, &damaged);
  ASSERT_EQ(damaged.size(), 1U);
  EXPECT_EQ(damaged[0].position, 1);
  EXPECT_EQ(out_.sample(0, 2)[1], value_of(1, 1));
  EXPECT_THROW(joined.read(std::vector<std::int64_t>{0, 24, 1}, out_), DataError);
  damaged.clear();
  subset(broken, {8, 2})->read(std::vector<std::int64_t>{1}, out_, &damaged);
  EXPECT_EQ(damaged.size(), 1U);
}

TEST_F(JoinedDatasetTest, RefusesOtherFieldsAndBadShares) {
  const JoinedDataset joined({make_fixed(3, 15), make_fixed(3, 20)});
  EXPECT_THAT([&] { (void)joined.size(); }, ThrowsMessage<UsageError>(HasSubstr("equal fields")));
  EXPECT_THROW((void)JoinedDataset(std::vector<std::shared_ptr<Dataset>>()), ArgumentError);
  EXPECT_THROW((void)JoinedDataset({make_fixed(3)}, {0.5, 0.5}), ArgumentError);
  EXPECT_THAT(
      [] {
        (void)JoinedDataset({make_fixed(3), make_fixed(0)}, {0.5, 0.5}).weights();
      },
      ThrowsMessage<UsageError>(HasSubstr("no samples")));
}

}  // namespace
}  // namespace mn::data
