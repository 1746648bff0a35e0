/// Access to gradients that may be sparse, for functions that read or change gradients. Not for programs.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>

namespace mn {

/// Returns the values of the parameter's gradient, to read them or change them in place. The gradient must be defined.
/// A dense gradient is returned as it is. In a sparse gradient, repeated rows are first added up.
inline at::Tensor gradient_values(const at::Tensor& parameter) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.is_sparse()) return gradient;
  if (!gradient.is_coalesced()) gradient = gradient.coalesce();
  return gradient._values();
}

/// Throws an ArgumentError that begins with `who` if the parameter's gradient, which is the mean over all ranks, is
/// sparse.
inline void reject_sparse(const at::Tensor& parameter, const std::string& who) {
  if (!parameter.grad().is_sparse()) return;
  throw ArgumentError(who +
                          " does not take sparse gradients: SGD and Adagrad without weight decay do; or make the "
                          "embedding without sparse(true)",
                      true);
}

}  // namespace mn
