/// One piece of memory for the gradients of all parameters, with a tensor (a view) for each parameter. A reduction
/// passes over the memory once and copies nothing.
///
/// Layout: the tensors of one dtype are adjacent, in the given order; dtypes begin at multiples of 64 bytes. On a GPU
/// each tensor begins at a multiple of 16 bytes, because vector loads of NCCL and of fused optimizers need this. The
/// zeros behind a tensor then belong to its message. The tail ends the buffer: numbers that travel with the gradients.
/// The tail is float64 if any parameter is float64, otherwise float32. The parameters of the tail's dtype come last.
/// (1) Message m is contiguous. Messages lie in memory in the order of their indices, without gaps, the tail last.
/// (2) A view has its parameter's shape, dtype and memory order (channels_last too), and its own version counter.
/// (3) The layout depends on shapes, dtypes and `order` alone; therefore it is equal on all ranks.
/// (4) If the program holds a tensor of the buffer, the held tensor keeps its values when the buffer is written anew or
///     freed: the tensor object moves to its own memory.
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
  /// Collective: the communicator allocates zeroed memory on its device. `order` lists the parameters in the order in
  /// which they lie in memory; empty means 0, 1, 2, and so on. `tail_count` is the number of elements behind the
  /// gradients.
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
  /// Removes a rounding error from `mean`, a mean over ranks that was computed from the buffer's reduced tail. Returns
  /// exactly 1 if `mean` differs from 1 only because 1 / size was rounded. Otherwise returns `mean`.
  [[nodiscard]] double without_rounding(double mean) const;
  /// A message is a contiguous part of the memory. There is one message for each parameter and one for the tail, in
  /// memory order.
  [[nodiscard]] std::span<const BufferView> messages() const noexcept { return messages_; }
  /// Returns those of the messages [first, first + count) that a reduction sends: all except the messages that
  /// send_only() leaves out.
  [[nodiscard]] std::vector<BufferView> sent(std::size_t first, std::size_t count) const;
  /// From now on reductions do not send the messages of parameters whose flag is false. The elements of these messages
  /// become zero.
  void send_only(const std::vector<bool>& parameters);
  /// Whether reductions send message m. False if send_only() leaves it out.
  [[nodiscard]] bool is_sent(std::size_t m) const { return is_sent_[m]; }
  /// The index of parameter i's message.
  [[nodiscard]] std::size_t message_index(std::size_t i) const { return message_index_[i]; }
  /// Returns the parameter to which message m belongs. Returns no value for the tail, the last message.
  [[nodiscard]] std::optional<std::size_t> parameter_of(std::size_t m) const { return parameter_of_[m]; }
  /// The parameter's elements of message m as a tensor of one dimension, in memory order.
  [[nodiscard]] const at::Tensor& message(std::size_t m) const { return message_tensors_[m]; }
  /// The names, by tensor_name(), of the parameters whose messages are in sent(first, count).
  [[nodiscard]] std::vector<std::string> names(std::size_t first, std::size_t count) const;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Call it before message m gets new values, while no task works on the message. If the program holds the message's
  /// view, the held tensor moves to its own memory, and the buffer gets a new view (invariant 4). Otherwise the call
  /// only reads two counters.
  void let_go(std::size_t m);

  /// Multiplies every element of the buffer by `factor`, also in the tail.
  void scale(double factor);
  /// Copies the messages [first, first + count) of the buffer `other` into this buffer, and multiplies them by
  /// `factor`. Both buffers must have the same layout. On a GPU one kernel for each dtype makes the copies.
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
