// What the stand-in's NCCL does where communicators are made: without blocking, by a split, of GPUs that ranks share.
#include <cstdlib>

#include <gmock/gmock.h>

#include "tests/support/stand_in_gpu/nccl_fixture.hpp"

namespace mn::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(OnNccl, CommunicatorsThatDoNotBlock) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = shared_id();
  EXPECT_EQ(ncclCommInitRankConfig(&comm, size_, id, rank_, &config), ncclInProgress);
  EXPECT_EQ(state_after(ncclInProgress, comm), ncclSuccess);
  const Stream stream;
  const auto buffer = ones();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ncclAllReduce(buffer.view().data, buffer.view().data, 8, ncclFloat32, ncclSum, comm, stream),
              ncclInProgress);
    EXPECT_EQ(state_after(ncclInProgress, comm), ncclSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(buffer.get()[7], static_cast<float>(size_ * size_ * size_));
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, size_ + 1, shared_id(), rank_, &config), ncclInProgress);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess) << "while a rank is missing";
}

TEST_F(OnNccl, Splits) {
  const ncclComm_t comm = create();
  ncclComm_t part = nullptr;
  const int color = rank_ % 2;
  EXPECT_EQ(ncclCommSplit(comm, color, -rank_, &part, nullptr), ncclSuccess);
  int size = 0;
  int rank = 0;
  EXPECT_EQ(ncclCommCount(part, &size), ncclSuccess);
  EXPECT_EQ(ncclCommUserRank(part, &rank), ncclSuccess);
  EXPECT_EQ(size, (size_ + 1 - color) / 2);
  EXPECT_EQ(rank, size - 1 - rank_ / 2);
  const Stream stream;
  const OnDevice<std::int32_t> sum({rank_}, device_);
  EXPECT_EQ(ncclAllReduce(sum.view().data, sum.view().data, 1, ncclInt32, ncclSum, part, stream), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  int expected = 0;
  for (int r = color; r < size_; r += 2) expected += r;
  EXPECT_EQ(sum.get()[0], expected);
  EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  const OnDevice<float> busy(std::vector<float>(8, 1), device_);
  EXPECT_EQ(cudaLaunchHostFunc(
                stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, nullptr),
            cudaSuccess);
  EXPECT_EQ(ncclAllReduce(busy.view().data, busy.view().data, 8, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
  EXPECT_EQ(ncclCommSplit(comm, 0, 0, &part, nullptr), ncclInvalidUsage);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(ncclCommSplit(comm, am_last() ? 3 : NCCL_SPLIT_NOCOLOR, 0, &part, nullptr), ncclSuccess);
  EXPECT_EQ(part != nullptr, am_last());
  EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(OnNccl, RefusesGpusThatRanksShare_from_2_ranks) {
  EXPECT_EQ(cudaSetDevice(rank_ / 2), cudaSuccess);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, size_, shared_id(), rank_), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("Duplicate GPU detected : rank 0 and rank 1"));
  EXPECT_EQ(comm, nullptr);
  setenv("STAND_IN_NCCL_VERSION", "23003", 1);
  EXPECT_EQ(ncclCommInitRank(&comm, size_, shared_id(), rank_), ncclInvalidUsage);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  EXPECT_EQ(ncclCommInitRank(&comm, size_, shared_id(), rank_), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  unsetenv("STAND_IN_NCCL_VERSION");
  EXPECT_EQ(cudaSetDevice(rank_), cudaSuccess);
}

}  // namespace
}  // namespace mn::testing
