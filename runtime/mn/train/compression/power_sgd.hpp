/// Gradients as products of two thin matrices.
#pragma once

#include <mn/train/compression/error_feedback.hpp>

namespace mn {

/// PowerSGD (Vogels, Karimireddy, Jaggi 2019, arXiv:1905.13727): a gradient M, as a matrix of its first dimension by
/// all others, becomes P Qᵀ of rank r by one power iteration that starts from the last step's Q: P = mean of M Q,
/// orthogonalised; Q = mean of Mᵀ P. r (rows + columns) numbers travel instead of rows × columns. Gradients that would
/// not shrink to half, and those of one dimension, travel whole. All ranks must be processors of one kind, which round
/// a product alike.
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
  std::vector<at::Tensor> q_;  // [columns, rank] of the last step, the same on all ranks
  std::vector<at::Tensor> next_q_;
};

}  // namespace mn
