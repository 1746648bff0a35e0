/// One piece of memory for the gradients of all parameters, with a tensor (a view) for each. A reduction passes over
/// the memory once and copies nothing.
///
/// Layout: the tensors of one dtype are adjacent, in the given order; dtypes begin at multiples of 64 bytes. On a GPU
/// each tensor begins at a multiple of 16 bytes, as vector loads of NCCL and of fused optimizers need; the zeros behind
/// a tensor belong to its message. The tail, numbers that travel with the gradients, ends the buffer. The tail is
/// float64 if any parameter is float64, else float32; the parameters of the tail's dtype come last.
/// (1) Message m is contiguous; messages lie in memory in the order of their indices, without gaps, the tail last.
/// (2) A view has its parameter's shape, dtype and memory order (channels_last too), and a version counter of its own.
/// (3) The layout depends on shapes, dtypes and `order` alone, so it is equal on all ranks.
/// (4) A tensor of the buffer that the program holds keeps its values when the buffer is written anew or freed: the
///     tensor object moves to memory of its own.
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

class FlatBuffer {
 public:
  /// Collective: the communicator allocates zeroed memory on its device. `order` has the parameters' order in memory
  /// (empty: 0, 1, 2, …). `tail_count` is the number of elements of the tail.
  FlatBuffer(const std::vector<at::Tensor>& parameters, std::size_t tail_count, Communicator& comm,
             std::span<const std::size_t> order = {});
  ~FlatBuffer();
  FlatBuffer(const FlatBuffer&) = delete;  // not copyable, because invariant 4 counts references to the views
  FlatBuffer& operator=(const FlatBuffer&) = delete;

  /// The view of parameter i.
  [[nodiscard]] const at::Tensor& view(std::size_t i) const { return views_[i]; }
  /// For each dtype, one tensor over the whole memory of the dtype.
  [[nodiscard]] const std::vector<at::Tensor>& flats() const noexcept { return flats_; }
  [[nodiscard]] const at::Tensor& tail() const noexcept { return tail_; }
  [[nodiscard]] std::size_t tail_count() const { return static_cast<std::size_t>(tail_.numel()); }
  /// Removes a rounding error: `mean` is a mean over ranks, computed from the reduced tail. Returns exactly 1 if `mean`
  /// differs from 1 only because 1 / size was rounded; otherwise returns `mean`.
  [[nodiscard]] double without_rounding(double mean) const;
  /// A message is a contiguous part of the memory. There is one message for each parameter and one for the tail, in
  /// memory order.
  [[nodiscard]] std::span<const BufferView> messages() const noexcept { return messages_; }
  /// Of the messages `first` to first + count − 1, those that a reduction sends: all but the messages left out by
  /// send_only().
  [[nodiscard]] std::vector<BufferView> sent(std::size_t first, std::size_t count) const;
  /// From now on, reductions leave out the messages of parameters whose flag is false, and the elements of these
  /// messages become zero.
  void send_only(const std::vector<bool>& parameters);
  /// Whether reductions send message m. False if send_only() leaves it out.
  [[nodiscard]] bool is_sent(std::size_t m) const { return is_sent_[m]; }
  /// The index of parameter i's message.
  [[nodiscard]] std::size_t message_index(std::size_t i) const { return message_index_[i]; }
  /// The parameter to which message m belongs; no value for the tail.
  [[nodiscard]] std::optional<std::size_t> parameter_of(std::size_t m) const { return parameter_of_[m]; }
  /// The parameter's elements of message m as a tensor of one dimension, in memory order.
  [[nodiscard]] const at::Tensor& message(std::size_t m) const { return message_tensors_[m]; }
  /// The names, by tensor_name(), of the parameters whose messages are in sent(first, count).
  [[nodiscard]] std::vector<std::string> names(std::size_t first, std::size_t count) const;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Call it before message m gets new values, while no task works on the message. Invariant 4: if the program holds
  /// the message's view, that tensor moves to memory of its own, and the buffer gets a new view. Otherwise the call
  /// only reads two counters.
  void let_go(std::size_t m);

  /// Multiplies every element of the buffer by `factor`, also in the tail.
  void scale(double factor);
  /// Copies the messages `first` to first + count − 1 of `other` into this buffer, multiplied by `factor`. Both buffers
  /// must have equal layouts.
  /// On a GPU one kernel for each dtype copies them.
  void copy_from(const FlatBuffer& other, std::size_t first, std::size_t count, double factor = 1);
  void copy_from(const FlatBuffer& other) { copy_from(other, 0, messages_.size()); }

 private:
  std::byte* add_flat(std::int64_t count, at::ScalarType dtype, std::byte* host, Communicator& comm);
  std::byte* add_parameter(std::size_t i, std::byte* data);
  [[nodiscard]] std::int64_t room_for(const at::Tensor& parameter) const;
  [[nodiscard]] at::Tensor view_at(std::size_t i, std::byte* data) const;
  void add_tail(std::int64_t count, std::byte* data);

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> flats_;  // [dtypes]; the last one includes the tail
  std::vector<at::Tensor> views_;
  std::vector<at::Tensor> message_tensors_;  // [messages] each message as a tensor of one dimension
  std::vector<BufferView> messages_;
  std::vector<bool> is_sent_;  // [messages]
  std::vector<std::size_t> message_index_;
  std::vector<std::optional<std::size_t>> parameter_of_;  // [messages]
  at::Tensor tail_;
  c10::Device device_ = c10::kCPU;
  std::vector<std::shared_ptr<std::byte>> memory_;  // that the communicator allocated
  std::size_t bytes_ = 0;
};

}  // namespace mn
