/// Error feedback, the base of the lossy compressors (Karimireddy et al. 2019, arXiv:1901.09847).
///
/// Each rank adds its residual to its new gradient and sends the sum in a compressed form. The part that it did not
/// send becomes the next residual. Therefore no part of a gradient is dropped, only delayed. A residual is kept in
/// units of the mean gradient: it is multiplied by the step's loss scale and mean divisor before it is added, and
/// divided by both when it is kept. The ranks agree on the divisor in the collective call that averages the first
/// message.
/// (1) Only commit() changes a residual. If a reduction is repeated, or a step ends without a mean, the next reduction
///     therefore starts from an unchanged residual.
/// (2) If a parameter has no gradient in a step, its residual stays unchanged.
/// (3) The derived class chooses the parameters whose gradients are compressed; all are float32. All
///     other gradients are sent whole, and so are the weights and flags at the end of the flat buffer.
/// Cost: 8 bytes a step, sent with the uncompressed messages. Memory: two float32 numbers for each compressed element.
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
  /// Describes the gradients that are not compressed, for example "3 of 12 gradients (1.5 % of the elements)". Returns
  /// an empty string if all gradients are compressed.
  [[nodiscard]] std::string whole_gradients() const;
  [[nodiscard]] bool uses_divisor() const noexcept override { return true; }

 protected:
  /// compressed[i] is true if the gradients of parameter i are to be compressed.
  ErrorFeedback(std::vector<at::Tensor> parameters, std::vector<bool> compressed, std::shared_ptr<Trace> trace);

  /// Collective. Before the call, next_residual(i) is the sum of gradient and residual for each parameter i in
  /// `members`. The function sends a part of this sum, writes the mean over ranks of the sent parts to gradient(i), and
  /// leaves the unsent part in next_residual(i).
  virtual void reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) = 0;
  [[nodiscard]] bool compressed(std::size_t i) const { return compressed_[i]; }
  /// True if a GradScaler scales the gradients.
  [[nodiscard]] bool scaled() const noexcept { return scaled_; }
  /// True if the gradient of parameter i is compressed and the step uses it; commit() then keeps the new residual.
  [[nodiscard]] bool used(std::size_t i) const { return compressed_[i] && parameters_[i].grad().defined(); }

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  /// Returns a tensor of one dimension, with the elements in memory order. Before reduce() the tensor holds the sum of
  /// gradient and residual. After reduce() it holds the part of this sum that was not sent.
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
  std::vector<at::Tensor> next_residuals_;  // become residuals_ at commit()
  at::Tensor divisor_;                      // mean over ranks in this step: one float64 on the gradients' device
  double scale_ = 1;                        // loss scale of a GradScaler
  bool scaled_ = false;
};

}  // namespace mn
