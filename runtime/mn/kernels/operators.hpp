/// The fused operators under their names in libtorch's dispatcher, such as "mn::token_loss". A GPU runs mn's kernel, a
/// CPU several of libtorch's operators. libtorch's profiler, fake tensors and other devices see the operators by their
/// names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <mn/core/buffer.hpp>

namespace mn::kernels {

/// Call it before an operator is called.
void register_operators();

/// Calls the operator "mn::NAME", whose function has this signature. The call bypasses autograd.
template <class Signature, class... Arguments>
auto call_operator(const char* name, Arguments&&... arguments) {
  register_operators();
  const at::AutoDispatchBelowAutograd no_autograd;
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>().call(
      std::forward<Arguments>(arguments)...);
}

/// mn's name of the tensor's float type. Throws ArgumentError for any other type.
[[nodiscard]] DType float_dtype(const at::Tensor& tensor, const char* operation);
/// The type in which kernels compute for elements of `type`.
[[nodiscard]] at::ScalarType real_type(at::ScalarType type);
[[nodiscard]] std::string text_of(const at::Tensor& tensor);
/// The current stream of the tensor's GPU: a cudaStream_t.
[[nodiscard]] void* stream_of(const at::Tensor& tensor);
[[nodiscard]] const void* data_of(const std::optional<at::Tensor>& tensor);

/// Returns the losses of all rows, and 1/W (token_loss_call.hpp). If `gradient` is true, overwrites the logits (rows,
/// vocabulary) with the gradient. A row's logits must be adjacent in memory.
using TokenLossSignature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& logits, const at::Tensor& targets,
                                                              const std::optional<at::Tensor>& weights,
                                                              std::int64_t ignore_index, double smoothing,
                                                              double z_loss, bool mean, bool gradient);
TokenLossSignature token_loss_operator;

/// Multiplies the rows of `data` by one factor, or by a factor for each row.
using ScaleRowsSignature = void(const at::Tensor& data, const at::Tensor& factors);
ScaleRowsSignature scale_rows_operator;

/// Returns sum (empty without a branch), normalized rows and statistics (layer_norm_call.hpp). Tensors are contiguous.
using NormForwardSignature = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& x, const std::optional<at::Tensor>& branch, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, double eps, bool centered, at::ScalarType type);
NormForwardSignature norm_forward_operator;

/// Returns the gradients of x and of the branch (empty unless `with_branch`), and partial sums of dg and dh.
using NormBackwardSignature = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& d_normalized, const std::optional<at::Tensor>& d_sum, const at::Tensor& sum,
    const at::Tensor& statistics, const at::Tensor& weight, bool centered, bool with_branch);
NormBackwardSignature norm_backward_operator;

/// Returns y (batch_norm_call.hpp). `channels` are mean, invstd, weight and bias, (C) each, in real_type() of x.
/// Tensors of x's shape are dense, have the same strides and are not empty.
using BatchNormForwardSignature = at::Tensor(const at::Tensor& x, const std::optional<at::Tensor>& added,
                                             at::TensorList channels, bool relu);
BatchNormForwardSignature batch_norm_forward_operator;

/// Returns db and dw in one tensor (2, C), and g (empty without a `mask`).
using BatchNormSumsSignature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& dy, const at::Tensor& x,
                                                                  const std::optional<at::Tensor>& mask,
                                                                  at::TensorList channels, bool relu);
BatchNormSumsSignature batch_norm_sums_operator;

/// Returns dx. `sums` are db and dw of all `count` values of a channel; without them, the moments do not depend on x.
using BatchNormBackwardSignature = at::Tensor(const at::Tensor& dy, const at::Tensor& x, at::TensorList channels,
                                              const std::optional<at::Tensor>& sums, double count, bool relu);
BatchNormBackwardSignature batch_norm_backward_operator;

/// Returns the gradient of GELU's input `x`, and partial sums of this gradient's columns (linear_gelu_call.hpp).
/// Tensors must be contiguous.
using GeluBackwardSignature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& d_y, const at::Tensor& x);
GeluBackwardSignature gelu_backward_operator;

}  // namespace mn::kernels
