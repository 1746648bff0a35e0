/// Access to gradients that may be sparse, for functions that read or change gradients. Not for programs.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>

namespace mn {

/// Returns the values of the parameter's gradient, for reading them or changing them in place. The gradient must be
/// defined. For a dense gradient, returns the gradient. For a sparse gradient, first adds up repeated rows, and then
/// returns its values.
inline at::Tensor gradient_values(const at::Tensor& parameter) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.is_sparse()) return gradient;
  if (!gradient.is_coalesced()) gradient = gradient.coalesce();
  return gradient._values();
}

/// Throws ArgumentError if the parameter's gradient, which is the mean over all ranks, is sparse. `who` begins the
/// error message.
inline void reject_sparse(const at::Tensor& parameter, const std::string& who) {
  if (!parameter.grad().is_sparse()) return;
  throw ArgumentError(who +
                          " does not take sparse gradients: SGD and Adagrad without weight decay do; or make the "
                          "embedding without sparse(true)",
                      true);
}

}  // namespace mn
