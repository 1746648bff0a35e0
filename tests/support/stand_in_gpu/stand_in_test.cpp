// What the stand-in has beyond CUDA: it finds wrong accesses, runs work late and in any order that is allowed, and
// fails where it is told to.
#include <cstdlib>
#include <set>

#include <mn/comm/device/pack.hpp>

#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/cells.hpp"

namespace mn::stand_in {
namespace {

using testing::Cells;
using testing::Event;
using testing::Gate;
using testing::Stream;

/// Deaths in a process of their own: a fork has none of the threads that streams need.
class StandInDeath : public ::testing::Test {
 protected:
  StandInDeath() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StandInDeath, DeviceMemoryIsOutOfTheHostsReach) {
  Cells cells;
  EXPECT_DEATH(*cells.device() = 1, "");
  EXPECT_DEATH(std::exit(*cells.device()), "");
}

TEST(StandIn, FreedAndForeignMemoryIsRefused) {
  const Stream stream;
  int* memory = nullptr;
  Cells cells;
  EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), 8), cudaSuccess);
  const auto copy = [&](const int* from, std::size_t bytes) {
    return cudaMemcpyAsync(cells.device(), from, bytes, cudaMemcpyDeviceToDevice, stream);
  };
  EXPECT_EQ(copy(memory, 8), cudaSuccess);
  EXPECT_EQ(copy(memory, 9), cudaErrorInvalidValue);
  EXPECT_EQ(copy(memory + 2, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(copy(memory, 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(copy(cells.values(), 8), cudaErrorInvalidValue) << "page-locked";
  static_cast<void>(cudaGetLastError());
}

TEST(StandIn, WorkRunsLate) {
  const Stream stream;
  Cells cells;
  int late = 0;
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(cells.set(0, 1, stream), cudaSuccess);
    late += cudaStreamQuery(stream) == cudaErrorNotReady ? 1 : 0;
  }
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_GT(late, 100);
}

/// Two copies to one cell, which nothing orders: each comes last now and then.
TEST(StandIn, GraphsRunInEveryOrderThatTheyAllow) {
  const Stream stream;
  const Stream forked;
  const Event event;
  Cells cells;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(forked, event, 0), cudaSuccess);
  EXPECT_EQ(cells.set(0, 1, stream), cudaSuccess);
  EXPECT_EQ(cells.set(0, 2, forked), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, forked), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiate(&instance, graph, 0), cudaSuccess);
  std::set<int> last;
  for (int round = 0; round < 50; ++round) {
    EXPECT_EQ(cudaGraphLaunch(instance, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    last.insert(cells.get(0));
  }
  EXPECT_EQ(last, (std::set{1, 2}));
  EXPECT_EQ(cudaGraphExecDestroy(instance), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST(StandIn, KernelsReadWhenTheirStreamComesToThem) {
  const Stream stream;
  float* memory = nullptr;
  EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), 8 * sizeof(float)), cudaSuccess);
  const float first[] = {1, 2, 3, 4};
  float result[4] = {};
  const PackPiece piece{memory, memory + 4, 4};
  Gate gate(stream);
  EXPECT_EQ(cudaMemcpyAsync(memory, first, sizeof first, cudaMemcpyHostToDevice, stream), cudaSuccess);
  pack_on_device({&piece, 1}, DType::kFloat32, DType::kFloat32, 0.5, stream);
  gate.open();
  EXPECT_EQ(cudaMemcpyAsync(result, memory + 4, sizeof result, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(result[0], 0.5F);
  EXPECT_EQ(result[3], 2.0F);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST(StandIn, TheCallThatIsNamedFails) {
  void* memory = nullptr;
  fail_call("cudaMalloc", 2);
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

/// After an error of work on a GPU nothing works any more, and nothing waits.
[[noreturn]] void lose_the_gpu() {
  Cells& cells = *new Cells;
  const Stream& stream = *new Stream;
  fail_call("cudaStreamSynchronize", 1);
  bool fine = cudaStreamSynchronize(stream) == cudaErrorIllegalAddress;
  fine = fine && cells.set(0, 1, stream) == cudaErrorIllegalAddress;
  fine = fine && cudaStreamQuery(stream) == cudaErrorIllegalAddress;
  fine = fine && cudaGetLastError() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress;
  std::_Exit(fine ? 0 : 1);
}

TEST_F(StandInDeath, ErrorsOfWorkStay) { EXPECT_EXIT(lose_the_gpu(), ::testing::ExitedWithCode(0), ""); }

/// As an illegal access does.
[[noreturn]] void pack_elsewhere() {
  float host[8] = {};
  const Stream& stream = *new Stream;
  const PackPiece piece{host, host + 4, 4};
  pack_on_device({&piece, 1}, DType::kFloat32, DType::kFloat32, 1, stream);
  std::_Exit(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress ? 0 : 1);
}

TEST_F(StandInDeath, KernelsOnForeignMemoryLoseTheGpu) {
  EXPECT_EXIT(pack_elsewhere(), ::testing::ExitedWithCode(0), "not memory that the GPU reaches");
}

}  // namespace
}  // namespace mn::stand_in
