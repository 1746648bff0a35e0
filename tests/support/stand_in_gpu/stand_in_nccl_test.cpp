// What the stand-in's NCCL does where ranks differ, come late, leave or fail.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <mpi.h>
#include <nccl.h>

#include <mn/core/half.hpp>

#include "tests/support/stand_in_gpu/nccl_fixture.hpp"

namespace mn::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// As NCCL does by default.
TEST_F(OnNccl, TheFirstCollectiveOfAKindWaitsForAllRanks_from_2_ranks) {
  setenv("NCCL_RUNTIME_CONNECT", "1", 1);
  constexpr auto kLate = std::chrono::milliseconds(100);
  const ncclComm_t comm = create();
  const Stream stream;
  const auto buffer = ones();
  float* const data = static_cast<float*>(buffer.view().data);
  MPI_Barrier(MPI_COMM_WORLD);
  if (am_last()) std::this_thread::sleep_for(kLate);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(ncclAllReduce(data, data, 8, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE(am_last() || waited > kLate / 2);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

/// A collective in which the last rank differs from the others, and what the report says of the two.
struct Difference {
  const char* name;
  std::function<ncclResult_t(bool is_other, float* data, ncclComm_t comm, cudaStream_t stream)> call;
  const char* first;
  const char* other;
};

std::vector<Difference> differences() {
  return {
      {"count",
       [](bool is_other, float* data, ncclComm_t comm, cudaStream_t stream) {
         return ncclAllReduce(data, data, is_other ? 7 : 8, ncclFloat32, ncclSum, comm, stream);
       },
       "of 8 float32, sum", "of 7 float32, sum"},
      {"type",
       [](bool is_other, float* data, ncclComm_t comm, cudaStream_t stream) {
         return ncclAllReduce(data, data, 8, is_other ? ncclInt32 : ncclFloat32, ncclSum, comm, stream);
       },
       "of 8 float32", "of 8 int32"},
      {"op",
       [](bool is_other, float* data, ncclComm_t comm, cudaStream_t stream) {
         return ncclAllReduce(data, data, 8, ncclFloat32, is_other ? ncclMax : ncclMin, comm, stream);
       },
       ", min", ", max"},
      {"root",
       [](bool is_other, float* data, ncclComm_t comm, cudaStream_t stream) {
         return ncclBroadcast(data, data, 8, ncclFloat32, is_other ? 1 : 0, comm, stream);
       },
       "root 0", "root 1"},
      {"operation",
       [](bool is_other, float* data, ncclComm_t comm, cudaStream_t stream) {
         return is_other ? ncclReduce(data, data, 8, ncclFloat32, ncclSum, 0, comm, stream)
                         : ncclAllReduce(data, data, 8, ncclFloat32, ncclSum, comm, stream);
       },
       "operation 0, AllReduce", "operation 0, Reduce"},
  };
}

TEST_F(OnNccl, CallsThatDifferAreReportedOnAllRanks_from_2_ranks) {
  for (const auto& [name, call, first, other] : differences()) {
    SCOPED_TRACE(name);
    const ncclComm_t comm = create();
    const Stream stream;
    const auto buffer = ones();
    EXPECT_EQ(call(am_last(), static_cast<float*>(buffer.view().data), comm, stream), ncclSuccess);
    EXPECT_EQ(state_after(ncclSuccess, comm), ncclInvalidUsage);
    EXPECT_THAT(ncclGetLastError(comm),
                AllOf(HasSubstr("the ranks differ: rank 0 in "), HasSubstr(first),
                      HasSubstr("rank " + std::to_string(size_ - 1) + " in "), HasSubstr(other)));
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady) << "as if it still ran";
    EXPECT_EQ(call(false, static_cast<float*>(buffer.view().data), comm, stream), ncclInvalidUsage);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
}

TEST_F(OnNccl, MessagesThatDifferAreReportedByTheReceiver) {
  const ncclComm_t comm = create();
  const Stream stream;
  const auto buffer = ones();
  auto* const data = static_cast<float*>(buffer.view().data);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclSend(data, 2, ncclFloat32, rank_, comm, stream), ncclSuccess);
  EXPECT_EQ(ncclRecv(data + 4, 3, ncclFloat32, rank_, comm, stream), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(state_after(ncclSuccess, comm), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(comm), AllOf(HasSubstr("Send of 2 float32"), HasSubstr("Recv of 3 float32")));
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

/// Only those count that all ranks call.
TEST_F(OnNccl, MessagesOfSomeRanksDoNotMakeOthersDiffer) {
  const ncclComm_t comm = create();
  const Stream stream;
  const auto buffer = ones();
  auto* const data = static_cast<float*>(buffer.view().data);
  if (rank_ == 0) {  // to itself
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclSend(data, 2, ncclFloat32, rank_, comm, stream), ncclSuccess);
    EXPECT_EQ(ncclRecv(data + 4, 2, ncclFloat32, rank_, comm, stream), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  EXPECT_EQ(ncclAllReduce(data, data, 8, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(buffer.get(), std::vector<float>(8, static_cast<float>(size_)));
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(OnNccl, AnOperationHoldsItsStreamUntilAllRanksCame) {
  const ncclComm_t comm = create();
  const Stream stream;
  const auto buffer = ones();
  const auto reduce = [&] {
    EXPECT_EQ(ncclAllReduce(buffer.view().data, buffer.view().data, 8, ncclFloat32, ncclSum, comm, stream),
              ncclSuccess);
  };
  if (!am_last()) {
    reduce();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (am_last()) reduce();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(buffer.get(), std::vector<float>(8, static_cast<float>(size_)));
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(OnNccl, AbortEndsWhatOthersNeverJoin) {
  const ncclComm_t comm = create();
  const Stream stream;
  const auto buffer = ones();
  if (!am_last()) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(ncclAllReduce(buffer.view().data, buffer.view().data, 8, ncclFloat32, ncclSum, comm, stream),
                ncclSuccess);
    }
  }
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(OnNccl, DestructionWaitsForGraphs) {
  for (const auto end : {ncclCommDestroy, ncclCommAbort}) {
    const ncclComm_t comm = create();
    const Stream stream;
    const auto buffer = ones();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(ncclAllReduce(buffer.view().data, buffer.view().data, 8, ncclFloat32, ncclSum, comm, stream),
              ncclSuccess);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    std::atomic<bool> is_gone = false;
    std::thread destroyer([&] {
      EXPECT_EQ(end(comm), ncclSuccess);
      is_gone = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(is_gone);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    destroyer.join();
  }
}

TEST_F(OnNccl, GraphsKeepTheOrderOfTwoCommunicators_from_2_ranks) {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  const ncclComm_t comms[] = {create(), create()};
  const Stream streams[2];
  const Event forks, joins;
  const auto buffer = ones(), other = ones();
  void* const data[] = {buffer.view().data, other.view().data};
  EXPECT_EQ(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(forks, streams[0]), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(streams[1], forks), cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ncclAllReduce(data[i], data[i], 8, ncclFloat32, ncclSum, comms[i], streams[i]), ncclSuccess);
  }
  EXPECT_EQ(cudaEventRecord(joins, streams[1]), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(streams[0], joins), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams[0], &graph), cudaSuccess);
  cudaGraphExec_t instance = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&instance, graph, 0), cudaSuccess);
  for (int launch = 0; launch < 20; ++launch) {  // in any other order some launch would never end
    EXPECT_EQ(cudaGraphLaunch(instance, streams[0]), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(streams[0]), cudaSuccess);
  }
  EXPECT_EQ(cudaGraphExecDestroy(instance), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
}

}  // namespace
}  // namespace mn::testing
