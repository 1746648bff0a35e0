/// CUDA streams and events for tests, and work that they hold: on GPUs and on their stand-in.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace mn::testing {

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&handle_, flags), cudaSuccess);
  }
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(handle_), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return handle_; }  // NOLINT: meant to be implicit

 private:
  cudaStream_t handle_ = nullptr;
};

class Event {
 public:
  Event() { EXPECT_EQ(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), cudaSuccess); }
  ~Event() { EXPECT_EQ(cudaEventDestroy(handle_), cudaSuccess); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return handle_; }  // NOLINT: meant to be implicit

 private:
  cudaEvent_t handle_ = nullptr;
};

/// Holds a stream. One at a time: CUDA may run the host's functions of all streams one after the other.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    using Opened = std::shared_future<void>;
    const auto hold = [](void* opened) { std::unique_ptr<Opened>(static_cast<Opened*>(opened))->wait(); };
    EXPECT_EQ(cudaLaunchHostFunc(stream, hold, new Opened(opened_.get_future())), cudaSuccess);
  }
  /// Lets the stream go on, some time from now: what does not wait for it comes first.
  void open() {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    opened_.set_value();
  }

 private:
  std::promise<void> opened_;
};

/// Keeps a stream busy for some time.
inline void delay(cudaStream_t stream) {
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  EXPECT_EQ(cudaLaunchHostFunc(stream, sleep, nullptr), cudaSuccess);
}

}  // namespace mn::testing
