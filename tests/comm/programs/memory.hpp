/// A buffer of a random program, on the host or on a GPU. The memory notices writes beside the buffer, and writes after
/// retirement.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/buffer.hpp>

#include "tests/comm/programs/model.hpp"

namespace mn::testing {

/// Value of a buffer that waits for a result.
inline constexpr int kEmpty = 77;

class Memory {
 public:
  Memory(DType dtype, const Values& values, Device device);

  [[nodiscard]] BufferView view() const;
  /// Fails the test unless the buffer holds `values`, with any NaN for a NaN, and nothing was written beside it.
  void expect(const Values& values) const;
  /// Later writes are errors.
  void retire();
  /// False if the buffer was written after retire().
  [[nodiscard]] bool is_untouched() const;

 private:
  [[nodiscard]] std::vector<std::byte> bytes() const;
  void set(const std::vector<std::byte>& bytes) const;

  DType dtype_;
  std::size_t count_;
  Device device_;
  std::unique_ptr<std::byte[]> host_;  // either the host's or the device's
  CudaMemory on_device_;
  bool is_retired_ = false;
};

/// All buffers of a rank's program. Buffers live until the program's end: late writes are noticed, and no memory is
/// freed while a GPU works.
class Memories {
 public:
  /// Each call decides whether its buffers lie on the host or on `device`.
  explicit Memories(Device device) : device_(device) {}
  Memory& keep(const Action& action, const Values& values);
  void keep(std::shared_ptr<std::byte> allocated) { allocated_.push_back(std::move(allocated)); }
  /// Fails the test if a retired buffer was written.
  void expect_untouched() const;

 private:
  Device device_;
  std::vector<std::unique_ptr<Memory>> all_;
  std::vector<std::shared_ptr<std::byte>> allocated_;
};

}  // namespace mn::testing
