/// What the lossy compressors share: error feedback (Karimireddy et al. 2019, arXiv:1901.09847).
///
/// Each rank sends a compressed form of gradient + residual, and keeps what it did not send as the next residual:
/// nothing is dropped, only delayed. Residuals are in units of the mean gradient: a step's scale and mean weight, which
/// the ranks agree on with the first message, multiply them when they travel, and what is kept is divided.
/// (1) A residual changes in commit() alone. A reduction that is repeated, or whose step applies nothing, starts from
///     the same residual.
/// (2) A parameter without a gradient in a step keeps its residual.
/// (3) Only float32 gradients for which the derived class says so are compressed; all others and the flat buffer's tail
///     travel as they are.
/// Cost: 8 bytes a step, with the messages that are not compressed. Memory: two more float32 numbers for each
/// compressed element.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <mn/gradients/compression/gradient_averager.hpp>

namespace mn {

class ErrorFeedback : public GradientAverager {
 public:
  void commit() override;
  [[nodiscard]] NamedTensors state() const override;
  void load_state(const NamedTensors& state) override;
  void set_scale(double scale) override {
    scale_ = scale;
    scaled_ = true;
  }
  /// "3 of 12 gradients (1.5 % of the elements)": those that are not compressed; empty if all are.
  [[nodiscard]] std::string whole_gradients() const;
  [[nodiscard]] bool uses_divisor() const noexcept override { return true; }

 protected:
  /// `compressed` has one entry for each parameter.
  ErrorFeedback(std::vector<at::Tensor> parameters, std::vector<bool> compressed, std::shared_ptr<Trace> trace);

  /// Collective. For each parameter in `members`: reads next_residual(i), which holds gradient plus residual, writes
  /// the mean over ranks of what was sent into gradient(i), and leaves in next_residual(i) what was not sent.
  virtual void reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) = 0;
  [[nodiscard]] bool compressed(std::size_t i) const { return compressed_[i]; }
  /// True if a GradScaler scales the gradients.
  [[nodiscard]] bool scaled() const noexcept { return scaled_; }
  /// True if the step that commit() ends uses what was reduced of parameter i.
  [[nodiscard]] bool used(std::size_t i) const { return compressed_[i] && parameters_[i].grad().defined(); }

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  /// Gradient plus residual, then what was not sent: one dimension, elements in memory order.
  [[nodiscard]] at::Tensor& next_residual(std::size_t i) { return next_residuals_[i]; }
  [[nodiscard]] static const at::Tensor& gradient(const FlatBuffer& gradients, std::size_t i) {
    return gradients.message(gradients.message_index(i));
  }

 private:
  void do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, double divisor,
                    Communicator& comm) final;
  void add_residual(std::size_t i, const at::Tensor& gradient);

  std::vector<at::Tensor> parameters_;
  std::vector<bool> compressed_;
  std::vector<at::Tensor> residuals_;       // sum over the steps so far
  std::vector<at::Tensor> next_residuals_;  // become residuals_ with the step
  at::Tensor divisor_;                      // this step's mean over ranks: one float64 on their device
  double scale_ = 1;                        // factor of the gradients, a GradScaler's
  bool scaled_ = false;
};

}  // namespace mn
