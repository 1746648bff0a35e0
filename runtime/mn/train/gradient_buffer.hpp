/// One flat buffer for all gradients of a parameter list, so that a reduction touches memory once and copies nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Each parameter's grad() is a tensor of its own over a piece of the buffer. Whether a backward wrote to it shows in
/// its version counter; such flags, and this rank's weight, travel behind the gradients in the same message.
class GradientBuffer {
 public:
  GradientBuffer() = default;
  /// Collective (the memory is the communicator's). Gradients that exist are copied in and count as written.
  GradientBuffer(std::vector<at::Tensor> parameters, Communicator& comm);

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  /// Bytes that one reduction handles.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Zeroes the buffer, attaches every view, and forgets what was written.
  void zero();

  /// Collects gradients that live elsewhere, multiplies by `weight` if it isn't 1, and reduces. Afterwards each
  /// gradient is Σ wᵢgᵢ / Σ wᵢ, and None where no rank wrote one. False if all weights are 0: there is no mean then.
  [[nodiscard]] bool reduce(Communicator& comm, double weight);

  /// Gives each parameter a gradient of its own instead of the view, so that it outlives this buffer.
  void release();

 private:
  struct View {
    at::Tensor grad;            // over this parameter's piece of the buffer
    std::uint32_t version = 0;  // of `grad` when it was last zeroed
  };
  void lay_out(Communicator& comm);
  bool collect(std::size_t i);
  void scale(double factor);

  std::vector<at::Tensor> parameters_;
  std::vector<View> views_;
  std::vector<BufferView> messages_;  // one for each parameter, and the tail, in the order in which they lie
  std::vector<at::Tensor> flats_;     // all of one dtype
  at::Tensor tail_;                   // float32 [1 + parameters]: weight, then 1 for each gradient written here
  std::shared_ptr<std::byte> host_memory_;
  std::size_t bytes_ = 0;
};

}  // namespace mn
