// scatter_dataset on several ranks: ChainerMN's parts, from shards and from one rank's memory, and the same errors
// everywhere.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/data/file_stage.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/sampler.hpp>
#include <mn/loader/scatter.hpp>
#include <mn/loader/share_stage.hpp>

#include "data/convert.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kBytes = 6;

std::shared_ptr<MemoryDataset> make_dataset(std::int64_t n) {
  ByteBuffer data;
  std::vector<std::int64_t> labels(n);
  std::iota(labels.begin(), labels.end(), 0);
  for (const std::int64_t s : labels) {
    for (std::int64_t i = 0; i < kBytes; ++i) data.push_back(static_cast<std::byte>(s * 5 + i));
  }
  return std::make_shared<MemoryDataset>(labeled({.shape = {2, 3}}), labeled_samples(std::move(data), labels));
}

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

/// A dataset that can't even say how long it is.
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

class Scatter : public testing::Test {
 protected:
  Scatter() : comm_(create_communicator("naive")) {
    // One folder for all ranks.
    std::string path;
    if (comm_->rank() == 0) {
      folder_ = std::make_unique<test::TemporaryFolder>();
      path = folder_->path().string();
    }
    path_ = comm_->bcast_obj(path);
  }
  ~Scatter() override { comm_->barrier(); }

  std::string shards(std::int64_t n) {
    const std::filesystem::path path = std::filesystem::path(path_) / std::to_string(n);
    if (comm_->rank() == 0) {
      data::write_fixed_dataset(*make_dataset(n), {.out = path, .split = "train", .shard_bytes = 64 * (kBytes + 8)},
                                {});
    }
    comm_->barrier();
    return path.string();
  }

  /// The labels (= numbers) of this rank's part; their bytes are checked.
  static std::vector<std::int64_t> samples_of(const Dataset& part) {
    std::vector<std::int64_t> indices(part.size());
    std::iota(indices.begin(), indices.end(), 0);
    RawSamples out;
    part.read(indices, out);
    const auto labels = out.columns[1].values<std::int64_t>();
    for (std::int64_t k = 0; k < out.size(); ++k) {
      for (std::int64_t i = 0; i < kBytes; ++i) {
        EXPECT_EQ(out.sample(0, k)[i], static_cast<std::byte>(labels[k] * 5 + i));
      }
    }
    return {labels.begin(), labels.end()};
  }

  /// The parts of all ranks, on every rank.
  std::vector<std::vector<std::int64_t>> all_parts(const std::vector<std::int64_t>& mine) {
    std::vector<std::vector<std::int64_t>> parts;
    for (const auto& part : comm_->allgather_obj(nlohmann::json(mine))) {
      parts.push_back(part.get<std::vector<std::int64_t>>());
    }
    return parts;
  }

  void check_parts(const std::shared_ptr<SubDataset>& part, std::int64_t n, const ScatterOptions& options) {
    const auto mine = samples_of(*part);
    const auto parts = all_parts(mine);
    EXPECT_EQ(part->global_size(), n);
    std::multiset<std::int64_t> unique;
    std::set<std::int64_t> covered;
    for (int rank = 0; rank < comm_->size(); ++rank) {
      const auto [first, last] = scatter_index(n, rank, comm_->size(), options.force_equal_length);
      EXPECT_EQ(static_cast<std::int64_t>(parts[rank].size()), last - first);
      if (!options.shuffle) {
        EXPECT_EQ(parts[rank].front(), first);
        EXPECT_EQ(parts[rank].back(), last - 1);
      }
      covered.insert(parts[rank].begin(), parts[rank].end());
      unique.insert(parts[rank].begin(), parts[rank].begin() + part->unique_size(rank));
    }
    EXPECT_EQ(static_cast<std::int64_t>(covered.size()), n) << "every sample is in a part";
    EXPECT_EQ(static_cast<std::int64_t>(unique.size()), n) << "unique parts cover each sample once";
    EXPECT_EQ(std::set<std::int64_t>(unique.begin(), unique.end()).size(), unique.size());
  }

  std::shared_ptr<Communicator> comm_;
  std::unique_ptr<test::TemporaryFolder> folder_;
  std::string path_;
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
  // Only root's dataset counts: the others may even name what is not there.
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

TEST_F(Scatter, RanksOfANodeCopyShardsToAFileWithoutAName) {
  const std::string folder = shards(64 * 12);
  const std::filesystem::path disk = std::filesystem::path(path_) / "disk";
  (void)take_warnings();
  const auto part = scatter_dataset(open_dataset(folder), comm_, {.stage = {.folder = disk}});
  (void)samples_of(*part);
  EXPECT_TRUE(std::filesystem::is_empty(disk));
  EXPECT_TRUE(take_warnings().empty());
  comm_->barrier();

  const auto uncopied = scatter_dataset(open_dataset(folder), comm_, {.stage = {.folder = "/proc/nowhere"}});
  (void)samples_of(*uncopied);
  EXPECT_EQ(take_warnings().size(), comm_->intra_rank() == 0 ? 1U : 0U);
}

TEST_F(Scatter, NodesGetCopiesFromEachOther) {
  const std::string folder = shards(64 * 6);
  const std::string node = std::to_string(comm_->rank() % 2);
  setenv("MN_NODE_NAME", node.c_str(), 1);
  const auto comm = create_communicator("naive");  // of two nodes, if there are two ranks
  unsetenv("MN_NODE_NAME");
  const auto stage_node = share_stage_node(std::filesystem::path(path_) / ("disk" + node), *comm);
  const data::ShardTable table = data::read_manifest(folder);
  std::int64_t from[2] = {};  // storage, nodes
  {
    data::FileStage stage(table, stage_node, {});
    for (int turn = 0; turn < comm->inter_size(); ++turn) {
      for (std::size_t file = 0; file < table.num_files() && turn == comm->inter_rank(); ++file) stage.want(file);
      const auto has_all = [&] { return turn != comm->inter_rank() || stage.copies() == table.num_files(); };
      for (int i = 0; i < 3000 && !has_all(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_TRUE(has_all());
      comm->barrier();
    }
    from[0] = stage.bytes_from_storage();
    from[1] = stage.bytes_from_nodes();
  }
  comm->allreduce(std::span(from), ReduceOp::kSum);
  EXPECT_EQ(from[0], table.total_bytes());
  EXPECT_EQ(from[1], (comm->inter_size() - 1) * table.total_bytes());
}

TEST_F(Scatter, OptionsThatDifferBetweenRanksAreNamed) {
  if (comm_->size() == 1) return;
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
