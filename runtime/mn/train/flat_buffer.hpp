/// One piece of memory with a tensor for each parameter in it, so that a reduction touches memory once and copies
/// nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Tensors of one dtype follow each other, in the order given; behind the last float32 one lies a float32 tail for the
/// few numbers that travel with them. A copy is a second owner of the same memory.
class FlatBuffer {
 public:
  FlatBuffer() = default;
  /// Collective: the memory is the communicator's (allocate()), on its device; zeroed. `order` permutes the parameters
  /// in memory (empty: as they come); `tail_count` is in elements.
  FlatBuffer(const std::vector<at::Tensor>& parameters, std::size_t tail_count, Communicator& comm,
             std::span<const std::size_t> order = {});

  /// Shape, dtype and memory order of parameter i. A tensor of its own: it shares no version counter with the others.
  [[nodiscard]] const at::Tensor& view(std::size_t i) const { return views_[i]; }
  [[nodiscard]] const at::Tensor& tail() const noexcept { return tail_; }
  /// What a reduction takes: one for each parameter and one for the tail, as they lie.
  [[nodiscard]] std::span<const BufferView> messages() const noexcept { return messages_; }
  /// Parameter i's place among the messages.
  [[nodiscard]] std::size_t message_index(std::size_t i) const { return message_index_[i]; }
  /// The parameter whose message is m; nothing for the tail.
  [[nodiscard]] std::optional<std::size_t> parameter_of(std::size_t m) const { return parameter_of_[m]; }
  /// Message m as a tensor of one dimension, in the order of the elements in memory.
  [[nodiscard]] const at::Tensor& message(std::size_t m) const { return message_tensors_[m]; }
  /// What messages [first, first + count) are called: tensor_name() of their parameters.
  [[nodiscard]] std::vector<std::string> names(std::size_t first, std::size_t count) const;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Multiplies everything, the tail included.
  void scale(double factor);
  /// Takes messages [first, first + count) of `other`, which has the same layout.
  void copy_from(const FlatBuffer& other, std::size_t first, std::size_t count);
  void copy_from(const FlatBuffer& other) { copy_from(other, 0, messages_.size()); }

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> flats_;  // all of one dtype; the tail is part of the float32 one
  std::vector<at::Tensor> views_;
  std::vector<at::Tensor> message_tensors_;  // one-dimensional, over each message
  std::vector<BufferView> messages_;
  std::vector<std::size_t> message_index_;
  std::vector<std::optional<std::size_t>> parameter_of_;  // [messages]
  at::Tensor tail_;
  std::shared_ptr<std::byte> host_memory_;
  std::size_t bytes_ = 0;
};

}  // namespace mn
