/// The fused operators, as libtorch's dispatcher knows them ("mn::token_loss"). One function computes an operator on
/// CPUs and GPUs; libtorch's profiler, fake tensors and other devices see the operators by their names.
#pragma once

#include <optional>
#include <tuple>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <mn/core/buffer.hpp>

namespace mn::kernels {

/// Registers the operators at its first call. Call it before an operator is called.
void register_operators();

/// Calls the operator "mn::NAME" with the signature of its function, below the level of autograd.
template <class Signature, class... Arguments>
auto call_operator(const char* name, Arguments&&... arguments) {
  register_operators();
  const at::AutoDispatchBelowAutograd no_autograd;
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>().call(
      std::forward<Arguments>(arguments)...);
}

/// mn's name of a float type of libtorch. Throws ArgumentError for other types.
[[nodiscard]] DType float_dtype(const at::Tensor& tensor, const char* operation);
/// The type that kernels compute in for elements of `type`.
[[nodiscard]] at::ScalarType real_type(at::ScalarType type);

/// Losses of rows, and 1/W (see token_loss_call.hpp). With `gradient`, overwrites the logits (rows, vocabulary) by the
/// gradient; the logits' second stride is 1.
using TokenLossSignature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& logits, const at::Tensor& targets,
                                                              const std::optional<at::Tensor>& weights,
                                                              std::int64_t ignore_index, double smoothing,
                                                              double z_loss, bool mean, bool gradient);
TokenLossSignature token_loss_operator;

/// Multiplies the rows of `data` by factors: one for all rows, or one for each.
using ScaleRowsSignature = void(const at::Tensor& data, const at::Tensor& factors);
ScaleRowsSignature scale_rows_operator;

/// Sum (empty without a branch), norm and statistics of rows (see layer_norm_call.hpp). Tensors are contiguous.
using NormForwardSignature = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& x, const std::optional<at::Tensor>& branch, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, double eps, bool centered, at::ScalarType type);
NormForwardSignature norm_forward_operator;

/// Gradients of x and of the branch (empty unless `with_branch`), and partial sums of the parameters' gradients.
using NormBackwardSignature = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& d_normalized, const std::optional<at::Tensor>& d_sum, const at::Tensor& sum,
    const at::Tensor& statistics, const at::Tensor& weight, bool centered, bool with_branch);
NormBackwardSignature norm_backward_operator;

}  // namespace mn::kernels
