/// One piece of memory with a tensor in it for each parameter, so that a reduction passes over memory once and copies
/// nothing.
///
/// Layout: tensors of one dtype follow each other in the order given; dtypes begin at multiples of 64 bytes. The tail
/// ends the buffer: numbers that travel with the gradients, float64 where a parameter is float64, else float32. Its
/// dtype is the last one.
/// (1) Message m is contiguous; messages follow each other in memory in the order of their indices, the tail last.
/// (2) A view has its parameter's shape, dtype and memory order (channels_last stays so), and its own version counter.
/// (3) The layout depends on shapes, dtypes and `order` alone: it is the same on every rank.
/// (4) What others hold of a view (itself, or a view of it) keeps its values when the memory gets new ones or goes: it
///     moves out, to memory of its own, and stays the same tensor.
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
  /// Collective: the communicator allocates the memory, on its device, zeroed. `order` permutes the parameters in
  /// memory (empty: as they come); `tail_count` is in elements.
  FlatBuffer(const std::vector<at::Tensor>& parameters, std::size_t tail_count, Communicator& comm,
             std::span<const std::size_t> order = {});
  ~FlatBuffer();
  FlatBuffer(const FlatBuffer&) = delete;  // (4) counts who holds the views
  FlatBuffer& operator=(const FlatBuffer&) = delete;

  /// The tensor of parameter i.
  [[nodiscard]] const at::Tensor& view(std::size_t i) const { return views_[i]; }
  /// The memory of each dtype as a whole.
  [[nodiscard]] const std::vector<at::Tensor>& flats() const noexcept { return flats_; }
  [[nodiscard]] const at::Tensor& tail() const noexcept { return tail_; }
  [[nodiscard]] std::size_t tail_count() const { return static_cast<std::size_t>(tail_.numel()); }
  /// `mean`, a mean over ranks that was in the reduced tail; 1 if it is 1 but for the rounding of 1/size.
  [[nodiscard]] double without_rounding(double mean) const;
  /// One for each parameter and one for the tail, in memory order.
  [[nodiscard]] std::span<const BufferView> messages() const noexcept { return messages_; }
  /// What a reduction takes of messages [first, first + count): those that are not left out.
  [[nodiscard]] std::vector<BufferView> sent(std::size_t first, std::size_t count) const;
  /// The other parameters' messages are left out; those that were not so far become zero.
  void send_only(const std::vector<bool>& parameters);
  /// False if message m is left out.
  [[nodiscard]] bool is_sent(std::size_t m) const { return is_sent_[m]; }
  /// The index of parameter i's message.
  [[nodiscard]] std::size_t message_index(std::size_t i) const { return message_index_[i]; }
  /// The parameter whose message is m; std::nullopt for the tail.
  [[nodiscard]] std::optional<std::size_t> parameter_of(std::size_t m) const { return parameter_of_[m]; }
  /// Message m as a tensor of one dimension, elements in memory order.
  [[nodiscard]] const at::Tensor& message(std::size_t m) const { return message_tensors_[m]; }
  /// For sent(first, count): tensor_name() of their parameters.
  [[nodiscard]] std::vector<std::string> names(std::size_t first, std::size_t count) const;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Call before message m gets other values: what others hold of its tensor moves out (4), and its view is a new
  /// tensor. Not while a task works on the message. Reads two counters, no more, where no other holds the tensor.
  void let_go(std::size_t m);

  /// Multiplies every element, the tail's too.
  void scale(double factor);
  /// Copies messages [first, first + count) of `other`, which has the same layout, times `factor`.
  void copy_from(const FlatBuffer& other, std::size_t first, std::size_t count, double factor = 1);
  void copy_from(const FlatBuffer& other) { copy_from(other, 0, messages_.size()); }

 private:
  std::byte* add_flat(std::int64_t count, at::ScalarType dtype, std::byte* host);
  std::byte* add_parameter(std::size_t i, std::byte* data);
  [[nodiscard]] at::Tensor view_at(std::size_t i, std::byte* data) const;
  void add_tail(std::int64_t count, std::byte* data);

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> flats_;  // one for each dtype; the last includes the tail
  std::vector<at::Tensor> views_;
  std::vector<at::Tensor> message_tensors_;  // one-dimensional, over each message
  std::vector<BufferView> messages_;
  std::vector<bool> is_sent_;  // [messages]
  std::vector<std::size_t> message_index_;
  std::vector<std::optional<std::size_t>> parameter_of_;  // [messages]
  at::Tensor tail_;
  c10::Device device_ = c10::kCPU;
  std::shared_ptr<std::byte> host_memory_;
  std::size_t bytes_ = 0;
};

}  // namespace mn
