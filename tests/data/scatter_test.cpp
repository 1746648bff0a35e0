// scatter_dataset on several ranks: ChainerMN's parts, from shards and from a rank's memory, and equal errors on all
// ranks.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <new>
#include <set>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/loader/scatter.hpp>

#include "tests/data/scattered.hpp"

namespace mn {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A dataset whose sample 7 can't be read.
class Broken final : public Dataset {
 public:
  explicit Broken(std::function<void()> fail) : fail_(std::move(fail)) {}

 private:
  std::int64_t do_size() const override { return actual_->size(); }
  const SampleSpec& do_spec() const override { return actual_->spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override {
    for (const std::int64_t i : indices) {
      if (i == 7) fail_();
    }
    actual_->read(indices, out, damaged);
  }
  std::function<void()> fail_;
  std::shared_ptr<MemoryDataset> actual_ = make_dataset(20);
};

/// A dataset without a known length.
class Hopeless final : public Dataset {
 private:
  std::int64_t do_size() const override { throw std::bad_alloc(); }
  const SampleSpec& do_spec() const override { throw std::bad_alloc(); }
  void do_read(std::span<const std::int64_t>, RawSamples&, std::vector<SampleError>*) const override {}
};

/// A dataset whose reads lack a column.
class Careless final : public Dataset {
 private:
  std::int64_t do_size() const override { return actual_->size(); }
  const SampleSpec& do_spec() const override { return actual_->spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>*) const override {
    actual_->read(indices, out);
    out.columns.pop_back();
  }
  std::shared_ptr<MemoryDataset> actual_ = make_dataset(20);
};

TEST(ScatterIndex, FollowsChainerMn) {
  using Part = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(scatter_index(10, 0, 4), (Part{0, 3}));
  EXPECT_EQ(scatter_index(10, 1, 4), (Part{2, 5}));
  EXPECT_EQ(scatter_index(10, 2, 4), (Part{5, 8}));
  EXPECT_EQ(scatter_index(10, 3, 4), (Part{7, 10}));
  EXPECT_EQ(scatter_index(10, 0, 4, false), (Part{0, 3}));
  EXPECT_EQ(scatter_index(10, 1, 4, false), (Part{3, 6}));
  EXPECT_EQ(scatter_index(10, 2, 4, false), (Part{6, 8}));
  EXPECT_EQ(scatter_index(10, 3, 4, false), (Part{8, 10}));
  EXPECT_EQ(scatter_index(8, 1, 2), (Part{4, 8}));
  EXPECT_EQ(scatter_index(1, 0, 3), (Part{0, 1}));
  EXPECT_EQ(scatter_index(1, 2, 3), (Part{0, 1}));
  EXPECT_EQ(scatter_index(1, 2, 3, false), (Part{1, 1}));
  EXPECT_EQ(scatter_index(0, 1, 3), (Part{0, 0}));
}

TEST_F(Scatter, PartsOfShardsAndOfMemoryAreChainerMns) {
  for (const std::int64_t n : {std::int64_t{comm_->size()}, std::int64_t{13}, std::int64_t{1000}}) {
    const std::string path = shards(n);
    for (const bool shuffle : {false, true}) {
      for (const bool equal : {false, true}) {
        const ScatterOptions options{.shuffle = shuffle, .seed = 3, .root = 0, .force_equal_length = equal};
        const auto shared = scatter_dataset(open_dataset(path), comm_, options);
        EXPECT_NE(shared->shared(), nullptr);
        check_parts(shared, n, options);
        const auto sent = scatter_dataset(comm_->rank() == 0 ? make_dataset(n) : nullptr, comm_, options);
        EXPECT_EQ(sent->shared(), nullptr);
        check_parts(sent, n, options);
        EXPECT_EQ(samples_of(*shared), samples_of(*sent)) << "the same parts either way";
      }
    }
  }
}

TEST_F(Scatter, AnyRankMayBeTheRoot) {
  const int root = comm_->size() - 1;
  const ScatterOptions options{.shuffle = true, .seed = 9, .root = root, .force_equal_length = true};
  check_parts(scatter_dataset(comm_->rank() == root ? make_dataset(101) : nullptr, comm_, options), 101, options);
}

TEST_F(Scatter, OtherRanksReadNoMetadata) {
  const std::string path = shards(500);
  // Only root's dataset counts: the other ranks may even name a missing dataset.
  const auto part = scatter_dataset(open_dataset(comm_->rank() == 0 ? path : "no/such/folder"), comm_, {});
  EXPECT_EQ(part->io().opens, 0);
  EXPECT_EQ(samples_of(*part).size(), static_cast<std::size_t>(part->size()));
}

TEST_F(Scatter, EachRankOpensAndReadsItsOwnShardsOnly) {
  const std::int64_t n = 64 * 48;  // 48 shards of 64
  const auto part = scatter_dataset(open_dataset(shards(n)), comm_, {});
  (void)samples_of(*part);
  const std::int64_t own = (48 + comm_->size() - 1) / comm_->size();
  EXPECT_LE(part->io().opens, own + 1);
  EXPECT_LE(part->io().bytes, (own + 1) * (4096 + 2 * 4 + 64 * (kBytes + 8)));
}

TEST_F(Scatter, OptionsThatDifferBetweenRanksAreNamed_from_2_ranks) {
  const bool last = comm_->rank() == comm_->size() - 1;
  const auto message = [&](const ScatterOptions& options) {
    return test::message_of<UsageError>([&] { (void)scatter_dataset(open_dataset(path_), comm_, options); });
  };
  path_ = shards(100);
  EXPECT_THAT(message({.shuffle = true, .seed = last ? 5u : 4u}),
              AllOf(HasSubstr("scatter_dataset's options"),
                    HasSubstr("seed is 4 on rank 0 and 5 on rank " + std::to_string(comm_->size() - 1))));
  EXPECT_THAT(message({.shuffle = last}), HasSubstr("shuffle is false on rank 0 and true on rank"));
  EXPECT_THAT(message({.root = last ? 1 : 0}), HasSubstr("root is 0 on rank 0 and 1 on rank"));
  EXPECT_EQ(message({.shuffle = true, .seed = 4}), "");
}

TEST_F(Scatter, PartsOfEqualDataHaveOneFingerprint) {
  const auto part = scatter_dataset(comm_->rank() == 0 ? make_dataset(40) : nullptr, comm_, {});
  const auto prints = comm_->allgather_obj(nlohmann::json(part->fingerprint()));
  for (const auto& print : prints) EXPECT_EQ(print, prints[0]);
}

TEST_F(Scatter, ErrorsOfTheRootAreThrownEverywhere) {
  const auto message = [&](const std::shared_ptr<Dataset>& dataset) {
    std::string text = "no error";
    try {
      (void)scatter_dataset(dataset, comm_);
    } catch (const Error& error) {
      EXPECT_TRUE(error.on_all_ranks());
      text = error.what();
    }
    const auto texts = comm_->allgather_obj(text);
    for (const auto& other : texts) EXPECT_EQ(other, text);
    return text;
  };
  EXPECT_THAT(message(open_dataset(path_ + "/absent")), AllOf(HasSubstr("absent"), HasSubstr("mnshard")));
  EXPECT_THAT(message(nullptr), HasSubstr("no dataset on its root, rank 0"));
  EXPECT_EQ(message(std::make_shared<Broken>([] { throw DataError("sample 7 is broken"); })), "sample 7 is broken");
  EXPECT_THAT(message(std::make_shared<Broken>([] { throw std::bad_alloc(); })),
              HasSubstr("does not have enough memory"));
  EXPECT_THAT(message(std::make_shared<Broken>([] { throw std::logic_error("a bug"); })), HasSubstr("failed: a bug"));
  EXPECT_THAT(message(std::make_shared<Hopeless>()), HasSubstr("does not have enough memory"));
  EXPECT_THAT(message(std::make_shared<Careless>()), HasSubstr("samples of 2 fields have 1 columns"));

  const std::string path = shards(300);
  const std::string shard = path + "/train-00003-of-00005.h5";
  if (comm_->rank() == 0) std::filesystem::resize_file(shard, 5000);
  comm_->barrier();
  EXPECT_THAT(message(open_dataset(path)), AllOf(HasSubstr(shard), HasSubstr("truncated")));
}

TEST_F(Scatter, RanksMayBeMoreThanSamples) {
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}}) {
    for (const bool shuffle : {false, true}) {
      const auto part = scatter_dataset(comm_->rank() == 0 ? make_dataset(n) : nullptr, comm_, {.shuffle = shuffle});
      EXPECT_EQ(part->size(), n);
      std::int64_t unique = part->unique_size();
      comm_->allreduce(std::span(&unique, 1));
      EXPECT_EQ(unique, n);
    }
  }
  const auto part = scatter_dataset(open_dataset(shards(1)), comm_);
  EXPECT_EQ(part->size(), 1);
}

}  // namespace
}  // namespace mn
