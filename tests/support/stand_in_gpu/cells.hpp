/// A few ints on the current GPU, which streams set and copy.
#pragma once

#include <numeric>

#include "tests/support/cuda_streams.hpp"

namespace mn::testing {

class Cells {
 public:
  static constexpr int kCount = 10;

  Cells() {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&device_), kBytes), cudaSuccess);
    EXPECT_EQ(cudaMallocHost(reinterpret_cast<void**>(&values_), kBytes), cudaSuccess);
    std::iota(values_, values_ + kCount, 0);
  }
  ~Cells() {
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(values_), cudaSuccess);
  }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  /// `value` is below kCount.
  cudaError_t set(int cell, int value, cudaStream_t stream) {
    return cudaMemcpyAsync(device_ + cell, values_ + value, sizeof(int), cudaMemcpyHostToDevice, stream);
  }
  cudaError_t copy(int from, int to, cudaStream_t stream) {
    return cudaMemcpyAsync(device_ + to, device_ + from, sizeof(int), cudaMemcpyDeviceToDevice, stream);
  }
  /// What is there now, whatever streams hold.
  [[nodiscard]] int get(int cell) {
    const Stream stream;
    int value = -1;
    EXPECT_EQ(cudaMemcpyAsync(&value, device_ + cell, sizeof value, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    return value;
  }
  [[nodiscard]] int* device() const { return device_; }
  /// Page-locked: element i is i.
  [[nodiscard]] int* values() const { return values_; }

 private:
  static constexpr std::size_t kBytes = kCount * sizeof(int);
  int* device_ = nullptr;
  int* values_ = nullptr;
};

}  // namespace mn::testing
