/// One piece of memory for the gradients of all parameters, with a tensor (a view) for each parameter. A reduction
/// passes over the memory once and copies nothing.
///
/// Layout: the tensors of one dtype are adjacent, in the given order; dtypes begin at multiples of 64 bytes. On a GPU
/// each tensor begins at a multiple of 16 bytes, because vector loads of NCCL and of fused optimizers need this. The
/// zeros behind a tensor then belong to its message. The buffer ends with the tail: numbers that travel with the
/// gradients, float64 if any parameter is float64, otherwise float32. The parameters of the tail's dtype come last.
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
  /// Collective: the communicator allocates zeroed memory on its device. `order` lists the parameters in their order in
  /// memory; empty means 0, 1, 2, … `tail_count` is the number of elements behind the gradients.
  FlatBuffer(const std::vector<at::Tensor>& parameters, std::size_t tail_count, Communicator& comm,
             std::span<const std::size_t> order = {});
  ~FlatBuffer();
  FlatBuffer(const FlatBuffer&) = delete;  // let_go() counts references to the views
  FlatBuffer& operator=(const FlatBuffer&) = delete;

  [[nodiscard]] const at::Tensor& view(std::size_t i) const { return views_[i]; }
  /// For each dtype, one tensor over the whole memory of the dtype.
  [[nodiscard]] const std::vector<at::Tensor>& flats() const noexcept { return flats_; }
  [[nodiscard]] const at::Tensor& tail() const noexcept { return tail_; }
  [[nodiscard]] std::size_t tail_count() const { return static_cast<std::size_t>(tail_.numel()); }
  /// Returns exactly 1 if `mean`, a mean over ranks from the buffer's reduced tail, differs from 1 only because 1 /
  /// size was rounded. Otherwise returns `mean`.
  [[nodiscard]] double without_rounding(double mean) const;
  /// A message is a contiguous part of the memory: one for each parameter and one for the tail, in memory order.
  [[nodiscard]] std::span<const BufferView> messages() const noexcept { return messages_; }
  /// Returns the messages [first, first + count) without those that send_only() leaves out.
  [[nodiscard]] std::vector<BufferView> sent(std::size_t first, std::size_t count) const;
  /// From now on reductions leave out the messages of parameters whose flag is false. Left-out messages become zero.
  void send_only(const std::vector<bool>& parameters);
  /// False if send_only() leaves message m out.
  [[nodiscard]] bool is_sent(std::size_t m) const { return is_sent_[m]; }
  [[nodiscard]] std::size_t message_index(std::size_t i) const { return message_index_[i]; }
  /// The parameter to which message m belongs; no value for the tail, the last message.
  [[nodiscard]] std::optional<std::size_t> parameter_of(std::size_t m) const { return parameter_of_[m]; }
  /// The parameter's elements of message m as a tensor of one dimension, in memory order.
  [[nodiscard]] const at::Tensor& message(std::size_t m) const { return message_tensors_[m]; }
  /// The names of the parameters whose messages are in sent(first, count).
  [[nodiscard]] std::vector<std::string> names(std::size_t first, std::size_t count) const;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Call it before message m gets new values, while no task works on the message. If the program holds the message's
  /// view, the held tensor moves to its own memory, and the buffer gets a new view (4).
  void let_go(std::size_t m);

  /// Multiplies every element of the buffer, also in the tail.
  void scale(double factor);
  /// Copies the messages [first, first + count) of `other`, a buffer of the same layout, multiplied by `factor`. On a
  /// GPU one kernel for each dtype makes the copies.
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
  std::vector<std::shared_ptr<std::byte>> memory_;  // memory from the communicator
  std::size_t bytes_ = 0;
};

}  // namespace mn
