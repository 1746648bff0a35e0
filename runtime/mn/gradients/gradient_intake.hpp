/// Moves the gradients that backward makes into a flat buffer. Views of the buffer then become the parameters'
/// gradients.
///
/// On the CPU a gradient moves in its hook, while the processor's cache still holds it. On a device a kernel for each
/// gradient would cost more than the copy itself. Therefore gradients wait, and one kernel moves all waiting gradients.
/// (1) Waiting gradients move when flush() is called, at the latest before backward returns. They also move when they
///     have a third of the buffer's size, or 64 MiB, and one more gradient comes.
/// (2) One stream has written all waiting gradients. The kernel runs on this stream, because the allocator gives the
///     memory of a moved gradient to later work of the stream.
/// (3) If the program keeps a gradient beyond zero_grad(), the kept tensor gets memory of its own before a new gradient
///     overwrites the buffer (FlatBuffer::let_go()).
/// Cost: one copy of each gradient. Memory during backward: one more gradient on the CPU, the waiting gradients on a
/// device.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <mn/gradients/gradient_watch.hpp>
#include <mn/tensor/flat_buffer.hpp>

namespace mn {

class GradientIntake : public std::enable_shared_from_this<GradientIntake> {
 public:
  /// If `waits` is true, gradients wait until one kernel moves many of them; `waits` must be false on the CPU.
  GradientIntake(std::vector<at::Tensor> parameters, std::shared_ptr<FlatBuffer> flat,
                 std::shared_ptr<GradientWatch> watch, bool waits);

  /// Call it in the hook of gradient i. Moves the gradient into the buffer, or lets it wait. A gradient stays where it
  /// is if it is sparse, has an autograd graph, or has another shape than the buffer's view.
  void arrived(std::size_t i);
  /// Moves gradient i, a dense tensor, now or with the next flush(). If gradient i does not come from backward, call
  /// flush() before take().
  void take(std::size_t i);
  [[nodiscard]] bool is_waiting(std::size_t i) const { return waiting_factor_[i].has_value(); }
  /// Multiplies gradient i by `factor` when the waiting gradients move. Returns false and does nothing if gradients
  /// never wait (on the CPU).
  bool weigh(std::size_t i, double factor);
  /// Moves the waiting gradients into the buffer. Later work of the current stream comes after this move.
  void flush();
  /// Empties the list of waiting gradients. These gradients then stay in the tensors that backward has made.
  void forget();

 private:
  [[nodiscard]] bool fits(std::size_t i) const;
  void wait(std::size_t i);
  void enqueue_copies();

  std::vector<at::Tensor> parameters_;
  std::shared_ptr<FlatBuffer> flat_;
  std::shared_ptr<GradientWatch> watch_;
  bool waits_;
  std::vector<std::size_t> waiting_;                   // parameters, in the order of their hooks
  std::vector<std::optional<double>> waiting_factor_;  // [parameters] factor of weigh(); no value: does not wait
  std::size_t waiting_bytes_ = 0;
  std::optional<c10::Stream> stream_;  // (2): the stream that wrote the waiting gradients
  int task_ = -1;                      // the backward whose end will call flush()
};

}  // namespace mn
