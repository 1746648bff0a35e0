// Copies on a disk of the node, of a dataset that is scattered.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <mn/core/log.hpp>
#include <mn/data/file_stage.hpp>
#include <mn/data/manifest.hpp>
#include <mn/loader/share_stage.hpp>

#include "tests/data/scattered.hpp"

namespace mn {
namespace {

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

TEST_F(Scatter, AFullDiskLeavesSamplesWhereTheyAre) {
  const std::string folder = shards(64 * 6);
  const std::filesystem::path disk = std::filesystem::path(path_) / "disk";
  (void)take_warnings();
  rlimit before;
  EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1024, before.rlim_max};  // as if no more room were left
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto part = scatter_dataset(open_dataset(folder), comm_, {.stage = {.folder = disk}});
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(samples_of(*part).size(), static_cast<std::size_t>(part->size()));
  EXPECT_EQ(take_warnings().size(), 1U);
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

}  // namespace
}  // namespace mn
