/// Compresses each gradient to the product of two thin matrices: PowerSGD (Vogels, Karimireddy, Jaggi 2019,
/// arXiv:1905.13727).
///
/// A gradient is seen as a matrix M: its rows are the first dimension, its columns the product of all other dimensions.
/// The product P Qᵀ of rank r approximates M. Each training step makes one step of a power iteration that begins with
/// the last Q. First P becomes the mean over ranks of M Q, orthogonalized. Then Q becomes the mean of Mᵀ P.
/// (1) All ranks always have the same Q. The first Q holds random numbers, whose seed is the parameter's index.
/// (2) If the gradient is zero, Q stays unchanged, because the iteration could not recover from Q = 0.
/// (3) A gradient of one dimension is sent whole. Therefore is a gradient whose P and Q together have more than half as
///     many elements as the gradient.
/// Cost: r (rows + columns) numbers are sent instead of rows × columns, in two collective calls. All ranks need
/// processors of equal kind, because processors of different kinds round products differently.
#pragma once

#include <mn/gradients/compression/error_feedback.hpp>

namespace mn {

class PowerSgd final : public ErrorFeedback {
 public:
  PowerSgd(const std::vector<at::Tensor>& parameters, std::int64_t rank, std::shared_ptr<Trace> trace);

  void commit() override;
  [[nodiscard]] NamedTensors state() const override;
  void load_state(const NamedTensors& state) override;

 private:
  void reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) override;
  [[nodiscard]] at::Tensor matrix(const at::Tensor& flat, std::size_t i) const;

  std::int64_t rank_;
  std::vector<at::Tensor> q_;       // [columns, rank] after the last step
  std::vector<at::Tensor> next_q_;  // becomes q_ at commit()
};

}  // namespace mn
