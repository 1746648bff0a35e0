/// Gradients as products of two thin matrices: PowerSGD (Vogels, Karimireddy, Jaggi 2019, arXiv:1905.13727).
///
/// A gradient M, as a matrix [first dimension, product of the rest], is approximated by P Qᵀ of rank r. Each training
/// step makes one step of a power iteration from the last Q: P = mean of M Q, orthogonalized; then Q = mean of Mᵀ P.
/// (1) All ranks always have the same Q. The first Q holds random numbers, whose seed is the parameter's index.
/// (2) If the gradient is zero, Q stays unchanged, because the iteration could not recover from Q = 0.
/// (3) Gradients of one dimension travel whole, and also gradients whose P and Q have more than half as many elements.
/// Cost: r (rows + columns) numbers travel instead of rows × columns, in two collectives. All ranks need processors of
/// one kind, because processors of different kinds round products differently.
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
