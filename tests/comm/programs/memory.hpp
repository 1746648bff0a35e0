/// Elements of a random program: a buffer on the host or on a GPU that notices writes beside it and after its time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/buffer.hpp>

#include "tests/comm/programs/model.hpp"

namespace mn::testing {

/// What a buffer holds that waits for a result.
inline constexpr int kEmpty = 77;

class Memory {
 public:
  Memory(DType dtype, const Values& values, Device device);

  [[nodiscard]] BufferView view() const;
  /// A failure of the test unless it holds these values, any NaN for a NaN, and nobody wrote beside it.
  void expect(const Values& values) const;
  /// From now on nobody may write to it.
  void retire();
  /// False if somebody has since.
  [[nodiscard]] bool is_untouched() const;

 private:
  [[nodiscard]] std::vector<std::byte> bytes() const;
  void set(const std::vector<std::byte>& bytes) const;

  DType dtype_;
  std::size_t count_;
  Device device_;
  std::unique_ptr<std::byte[]> host_;  // or
  CudaMemory on_device_;
  bool is_retired_ = false;
};

/// All buffers of a rank's program, which live to its end: a write to one that is done with shows, and nothing is freed
/// while a GPU is at work.
class Memories {
 public:
  /// Buffers lie on the host or on `device`, as their calls say.
  explicit Memories(Device device) : device_(device) {}
  Memory& keep(const Action& action, const Values& values);
  void keep(std::shared_ptr<std::byte> allocated) { allocated_.push_back(std::move(allocated)); }
  /// A failure of the test if one was written to that is retired.
  void expect_untouched() const;

 private:
  Device device_;
  std::vector<std::unique_ptr<Memory>> all_;
  std::vector<std::shared_ptr<std::byte>> allocated_;
};

}  // namespace mn::testing
