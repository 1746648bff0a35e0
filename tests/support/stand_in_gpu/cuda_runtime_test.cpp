// What mn::comm relies on of CUDA's streams and memory. GPUs and their stand-in must both pass.
#include <optional>
#include <thread>

#include "tests/support/stand_in_gpu/cells.hpp"

namespace mn::testing {
namespace {

TEST(CudaStreams, RunInOrderAndBesideEachOther) {
  const Stream held;
  const Stream free;
  Cells cells;
  Gate gate(held);
  EXPECT_EQ(cells.set(0, 1, held), cudaSuccess);
  EXPECT_EQ(cells.copy(0, 1, held), cudaSuccess);
  EXPECT_EQ(cells.set(2, 5, free), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(free), cudaSuccess);
  EXPECT_EQ(cells.get(2), 5);
  EXPECT_EQ(cudaStreamQuery(held), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(held), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(held), cudaSuccess);
  EXPECT_EQ(cells.get(1), 1);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not ready is not an error";
}

TEST(CudaStreams, WaitForEventsAsTheyWereRecorded) {
  const Stream first;
  const Stream second;
  const Event event;
  Cells cells;
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);  // never recorded: nothing to wait for
  Gate gate(first);
  EXPECT_EQ(cells.set(0, 1, first), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, second), cudaSuccess);  // changes nothing for the wait above
  EXPECT_EQ(cells.copy(0, 1, second), cudaSuccess);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(cells.get(1), 1);
}

TEST(CudaStreams, EventsHaveTimesUnlessTheyAreMadeWithout) {
  const Stream stream;
  const Event timeless;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  for (cudaEvent_t* each : {&begin, &end}) {
    EXPECT_EQ(cudaEventCreateWithFlags(each, cudaEventDefault), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(*each, stream), cudaSuccess);
  }
  EXPECT_EQ(cudaEventRecord(timeless, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, timeless), cudaErrorInvalidResourceHandle);
  (void)cudaGetLastError();
  EXPECT_EQ(cudaEventDestroy(begin), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
}

TEST(CudaStreams, BlockingOnesAndTheLegacyDefaultStreamWaitForEachOther) {
  const Stream blocking(cudaStreamDefault);
  const Stream other(cudaStreamDefault);
  Cells cells;
  Gate gate(blocking);
  EXPECT_EQ(cells.set(0, 1, blocking), cudaSuccess);
  EXPECT_EQ(cells.copy(0, 1, nullptr), cudaSuccess);
  EXPECT_EQ(cells.copy(1, 2, other), cudaSuccess);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_EQ(cells.get(2), 1);
}

TEST(CudaStreams, EventsOfTheLegacyDefaultStreamWaitForBlockingStreams) {
  const Stream blocking(cudaStreamDefault);
  const Stream free;
  const Event event;
  Cells cells;
  Gate gate(blocking);
  EXPECT_EQ(cells.set(0, 1, blocking), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(free, event, 0), cudaSuccess);
  EXPECT_EQ(cells.copy(0, 1, free), cudaSuccess);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(free), cudaSuccess);
  EXPECT_EQ(cells.get(1), 1);
}

TEST(CudaStreams, TheLegacyDefaultStreamDoesNotWaitForNonBlockingOnes) {
  const Stream held;
  Cells cells;
  Gate gate(held);
  EXPECT_EQ(cells.set(0, 1, nullptr), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(cells.get(0), 1);
  EXPECT_EQ(cudaStreamQuery(held), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(held), cudaSuccess);
}

TEST(CudaStreams, NonBlockingOnesDoNotWaitForTheLegacyDefaultStream) {
  const Stream free;
  Cells cells;
  Gate gate(nullptr);
  EXPECT_EQ(cells.set(0, 1, free), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(free), cudaSuccess);
  EXPECT_EQ(cells.get(0), 1);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
}

TEST(CudaStreams, RunWhatTheyHoldWhenTheyAreDestroyed) {
  Cells cells;
  std::optional<Gate> gate;
  {
    const Stream stream;
    gate.emplace(stream);
    EXPECT_EQ(cells.set(0, 7, stream), cudaSuccess);
  }
  gate->open();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cells.get(0), 7);
}

TEST(CudaStreams, KeepTheirFlagsAndPriorities) {
  int least = 0;
  int greatest = 0;
  EXPECT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_LT(greatest, least);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 1), cudaSuccess);
  int priority = 0;
  unsigned flags = 0;
  EXPECT_EQ(cudaStreamGetPriority(stream, &priority), cudaSuccess);
  EXPECT_EQ(cudaStreamGetFlags(stream, &flags), cudaSuccess);
  EXPECT_EQ(priority, greatest);
  EXPECT_EQ(flags, static_cast<unsigned>(cudaStreamNonBlocking));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(CudaMemory, PageLockedMemoryIsReadAndWrittenByTheStream) {
  const Stream stream;
  Cells cells;
  int& host = cells.values()[9];
  Gate gate(stream);
  EXPECT_EQ(cells.set(0, 9, stream), cudaSuccess);
  host = 77;  // before the stream comes to the copy
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cells.get(0), 77);
  host = 0;
  Gate second(stream);
  EXPECT_EQ(cudaMemcpyAsync(&host, cells.device(), sizeof host, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(host, 0) << "the copy has not begun";
  second.open();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(host, 77);
}

TEST(CudaMemory, PageableMemoryIsTakenAndFilledByTheCall) {
  const Stream stream;
  Cells cells;
  int value = 1;
  Gate gate(stream);
  EXPECT_EQ(cudaMemcpyAsync(cells.device(), &value, sizeof value, cudaMemcpyHostToDevice, stream), cudaSuccess);
  value = 2;
  std::thread opener([&] { gate.open(); });
  EXPECT_EQ(cudaMemcpyAsync(&value, cells.device(), sizeof value, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(value, 1);
  opener.join();
}

TEST(CudaMemory, FreeingWaitsForTheDevice) {
  const Stream stream;
  Cells cells;
  void* memory = nullptr;
  void* pinned = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 100), cudaSuccess);
  EXPECT_EQ(cudaMallocHost(&pinned, 100), cudaSuccess);
  const auto expect_waits = [&](auto free, void* what) {
    Gate gate(stream);
    std::thread opener([&] { gate.open(); });
    EXPECT_EQ(free(what), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
    opener.join();
  };
  expect_waits(cudaFree, memory);
  expect_waits(cudaFreeHost, pinned);
}

TEST(CudaMemory, RefusesWhatItDoesNotHold) {
  int value = 0;
  void* memory = nullptr;
  EXPECT_EQ(cudaFreeHost(&value), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(&value), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 0), cudaSuccess);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "once";
}

TEST(CudaDevices, AreTheThreadsOwn) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  std::thread([] {
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
  }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST(CudaDevices, KeepTheirEventsAndStreams) {
  int devices = 0;
  EXPECT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
  if (devices < 2) GTEST_SKIP() << "one GPU only";
  const Stream first;
  const Event event;
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  const Stream second;
  EXPECT_EQ(cudaEventRecord(event, second), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess) << "to wait for another GPU's is allowed";
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace mn::testing
