// What mn::comm relies on of CUDA's graphs. GPUs and their stand-in must both pass.
#include <thread>
#include <utility>

#include "tests/support/stand_in_gpu/cells.hpp"

namespace mn::testing {
namespace {

/// What `body` captures in `stream`; null, and the error of the end, if that fails.
template <class Body>
std::pair<cudaGraphExec_t, cudaError_t> captured(cudaStream_t stream, const Body& body) {
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  body();
  cudaGraph_t graph = nullptr;
  const cudaError_t code = cudaStreamEndCapture(stream, &graph);
  cudaGraphExec_t instance = nullptr;
  if (code == cudaSuccess) {
    EXPECT_EQ(cudaGraphInstantiate(&instance, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  static_cast<void>(cudaGetLastError());
  return {instance, code};
}

/// The error of the end of a capture in which `call` is refused with `refusal`.
template <class Call>
cudaError_t end_after(cudaStream_t stream, cudaError_t refusal, const Call& call) {
  return captured(stream, [&] { EXPECT_EQ(call(), refusal); }).second;
}

TEST(CudaGraphs, RunWhatStreamsCaptured) {
  const Stream stream;
  const Stream forked;
  const Event event;
  Cells cells;
  const auto [graph, code] = captured(stream, [&] {
    EXPECT_EQ(cells.set(0, 9, stream), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(forked, event, 0), cudaSuccess);
    EXPECT_EQ(cells.copy(0, 1, forked), cudaSuccess);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(forked, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    EXPECT_EQ(cudaEventRecord(event, forked), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
    EXPECT_EQ(cells.copy(1, 2, stream), cudaSuccess);
  });
  ASSERT_EQ(code, cudaSuccess);
  for (int round = 0; round < 3; ++round) {
    cells.values()[9] = 10 + round;
    EXPECT_EQ(cudaGraphLaunch(graph, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cells.get(2), 10 + round);
  }
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST(CudaGraphs, NeedForkedStreamsToJoin) {
  const Stream stream;
  const Stream forked;
  const Event event;
  Cells cells;
  const auto [graph, code] = captured(stream, [&] {
    EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(forked, event, 0), cudaSuccess);
    EXPECT_EQ(cells.set(0, 1, forked), cudaSuccess);
  });
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(code, cudaErrorStreamCaptureUnjoined);
}

TEST(CudaGraphs, ForbidWhatWaits) {
  const Stream stream;
  void* memory = nullptr;
  const auto end = [&](const auto& call) { return end_after(stream, cudaErrorStreamCaptureUnsupported, call); };
  EXPECT_EQ(end([&] { return cudaMalloc(&memory, 8); }), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end([&] { return cudaStreamSynchronize(stream); }), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end([&] { return cudaStreamQuery(stream); }), cudaErrorStreamCaptureInvalidated);
}

TEST(CudaGraphs, LetOtherThreadsWait) {
  const Stream stream;
  void* memory = nullptr;
  const auto [graph, code] =
      captured(stream, [&] { std::thread([&] { EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess); }).join(); });
  EXPECT_EQ(code, cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST(CudaGraphs, ForbidOrderWithWhatTheyDoNotHold) {
  const Stream stream;
  const Stream blocking(cudaStreamDefault);
  const Stream other;
  const Event event;
  EXPECT_EQ(cudaEventRecord(event, other), cudaSuccess);
  EXPECT_EQ(end_after(stream, cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(stream, event, 0); }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end_after(blocking, cudaErrorStreamCaptureImplicit, [&] { return cudaEventRecord(event, nullptr); }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
}

}  // namespace
}  // namespace mn::testing
