/// How gradients carry the weights of their losses from rank to rank.
#pragma once

#include <memory>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/factor.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {

/// Gradients are sent in a dtype that holds their sums: multiplied by samples, they can exceed float16 on some rank.
[[nodiscard]] inline at::ScalarType sent_dtype(at::ScalarType dtype) { return dtype == at::kHalf ? at::kFloat : dtype; }

/// The weight of a backward's gradients (weighted_loss.hpp), on their way over a communicator.
class GradientWeight {
 public:
  /// Call it in a backward, before gradients are sent or received.
  explicit GradientWeight(const std::shared_ptr<Communicator>& comm) {
    const auto unit = pass_gradients_over(comm);
    if (!unit) assume_equal_weights();
    factor_ = unit.value_or(1);
  }
  /// The gradient as it is sent.
  [[nodiscard]] at::Tensor sent(const at::Tensor& gradient) const {
    const at::Tensor wide = gradient.to(sent_dtype(gradient.scalar_type()));
    return factor_ == 1 ? wide : wide.mul(exact_factor(factor_));
  }
  /// A received gradient, in the dtype in which it was sent: autograd restores its own.
  [[nodiscard]] at::Tensor received(const at::Tensor& gradient) const {
    return factor_ == 1 ? gradient : gradient.div(factor_);
  }

 private:
  double factor_ = 1;
};

}  // namespace mn
