/// Device buffers for tests, filled from vectors and read back into vectors.
#pragma once

#include <memory>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/cuda.hpp>

namespace mn::testing {

template <class T>
class OnDevice {
 public:
  OnDevice(const std::vector<T>& values, Device device)
      : device_(device),
        count_(values.size()),
        memory_(cuda_allocate(std::max<std::size_t>(values.size() * sizeof(T), 1))) {
    set(values);
  }
  void set(const std::vector<T>& values) {
    CudaStream stream(device_.index);
    stream.copy_to_device(memory_.get(), values.data(), values.size() * sizeof(T));
    stream.synchronize();
  }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(count_);
    CudaStream stream(device_.index);
    stream.copy_to_host(values.data(), memory_.get(), count_ * sizeof(T));
    stream.synchronize();
    return values;
  }
  [[nodiscard]] BufferView view() const { return {memory_.get(), count_, dtype_of<T>(), device_}; }

 private:
  Device device_;
  std::size_t count_;
  CudaMemory memory_;
};

}  // namespace mn::testing
