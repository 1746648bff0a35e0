/// Gradients as products of two thin matrices: PowerSGD (Vogels, Karimireddy, Jaggi 2019, arXiv:1905.13727).
///
/// A gradient M, as a matrix [first dimension, all others], is approximated by P Qᵀ of rank r, by one step of the power
/// iteration, which starts from the last step's Q: P = mean of M Q, orthogonalized; Q = mean of Mᵀ P.
/// (1) Q is the same on all ranks at all times: it starts from random numbers that the parameter's number seeds.
/// (2) A gradient of zeros leaves Q as it was, because from Q = 0 the iteration could not recover.
/// (3) Gradients of one dimension, and those that would not shrink to half, travel whole.
/// Cost: r (rows + columns) numbers travel instead of rows × columns, in two collectives. All ranks must run on
/// processors of one kind, which round products the same way.
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
  std::vector<at::Tensor> q_;       // [columns, rank] of the last step
  std::vector<at::Tensor> next_q_;  // becomes q_ with the step
};

}  // namespace mn
