/// How gradients carry the weights of their losses from rank to rank.
#pragma once

#include <memory>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/factor.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {

/// Returns the dtype in which gradients of dtype `dtype` are sent. Gradients are multiplied by numbers of samples and
/// added up, which could exceed the range of float16; therefore float16 gradients are sent as float32.
[[nodiscard]] inline at::ScalarType sent_dtype(at::ScalarType dtype) { return dtype == at::kHalf ? at::kFloat : dtype; }

/// Multiplies gradients by a factor (pass_gradients_over()) before a backward sends the gradients to other ranks, and
/// divides received gradients by the same factor.
class GradientWeight {
 public:
  /// Call it in a backward, before gradients are sent or received.
  explicit GradientWeight(const std::shared_ptr<Communicator>& comm) {
    const auto unit = pass_gradients_over(comm);
    if (!unit) assume_equal_weights();
    factor_ = unit.value_or(1);
  }
  /// Returns the gradient as it is sent: multiplied by the factor, in sent_dtype(). Tensors of integers have no
  /// gradients; autograd passes zeros.
  [[nodiscard]] at::Tensor sent(const at::Tensor& gradient) const {
    if (!at::isFloatingType(gradient.scalar_type())) return gradient;
    const at::Tensor wide = gradient.to(sent_dtype(gradient.scalar_type()));
    return factor_ == 1 ? wide : wide.mul(exact_factor(factor_));
  }
  /// Divides a received gradient by the factor. The gradient keeps its dtype; autograd converts it.
  [[nodiscard]] at::Tensor received(const at::Tensor& gradient) const {
    return factor_ == 1 ? gradient : gradient.div(factor_);
  }

 private:
  double factor_ = 1;
};

}  // namespace mn
