/// The fused operators under the names by which libtorch's dispatcher knows them, such as "mn::token_loss". One
/// function computes an operator: on a GPU by mn's kernel, on a CPU by several of libtorch's operators. libtorch's
/// profiler, fake tensors and other devices see the operators by their names.
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

/// Registers the operators at its first call. Call it before an operator is called.
void register_operators();

/// Calls the operator "mn::NAME", whose function has this signature. The call bypasses autograd.
template <class Signature, class... Arguments>
auto call_operator(const char* name, Arguments&&... arguments) {
  register_operators();
  const at::AutoDispatchBelowAutograd no_autograd;
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>().call(
      std::forward<Arguments>(arguments)...);
}

/// Returns mn's name of the tensor's float type. Throws ArgumentError for any other type.
[[nodiscard]] DType float_dtype(const at::Tensor& tensor, const char* operation);
/// Returns the type in which kernels compute for elements of `type`.
[[nodiscard]] at::ScalarType real_type(at::ScalarType type);
/// Returns the tensor's shape, type and device, for an error's message.
[[nodiscard]] std::string text_of(const at::Tensor& tensor);
/// Returns the current stream of the tensor's GPU: a cudaStream_t.
[[nodiscard]] void* stream_of(const at::Tensor& tensor);
/// Returns the tensor's memory, or null if there is no tensor.
[[nodiscard]] const void* data_of(const std::optional<at::Tensor>& tensor);

/// Returns the losses of all rows, and 1/W (token_loss_call.hpp). If `gradient` is true, overwrites the logits (rows,
/// vocabulary) with the gradient. The logits of a row must be adjacent in memory.
using TokenLossSignature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& logits, const at::Tensor& targets,
                                                              const std::optional<at::Tensor>& weights,
                                                              std::int64_t ignore_index, double smoothing,
                                                              double z_loss, bool mean, bool gradient);
TokenLossSignature token_loss_operator;

/// Multiplies the rows of `data` by `factors`: by one factor for all rows, or by a factor for each row.
using ScaleRowsSignature = void(const at::Tensor& data, const at::Tensor& factors);
ScaleRowsSignature scale_rows_operator;

/// Returns sum, normalized rows and statistics (layer_norm_call.hpp). The sum is empty if there is no branch. Tensors
/// must be contiguous.
using NormForwardSignature = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& x, const std::optional<at::Tensor>& branch, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, double eps, bool centered, at::ScalarType type);
NormForwardSignature norm_forward_operator;

/// Returns the gradient of x, the gradient of the branch (an empty tensor unless `with_branch` is true), and partial
/// sums of the parameters' gradients.
using NormBackwardSignature = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& d_normalized, const std::optional<at::Tensor>& d_sum, const at::Tensor& sum,
    const at::Tensor& statistics, const at::Tensor& weight, bool centered, bool with_branch);
NormBackwardSignature norm_backward_operator;

/// Returns y (batch_norm_call.hpp). `channels` are mean, invstd, weight and bias, (C) each, in real_type() of x.
/// Tensors of x's shape are dense, have the same strides and are not empty.
using BatchNormForwardSignature = at::Tensor(const at::Tensor& x, const std::optional<at::Tensor>& added,
                                             at::TensorList channels, bool relu);
BatchNormForwardSignature batch_norm_forward_operator;

/// Returns the sums db and dw in one tensor (2, C). If there is a `mask`, also returns g, otherwise an empty tensor.
using BatchNormSumsSignature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& dy, const at::Tensor& x,
                                                                  const std::optional<at::Tensor>& mask,
                                                                  at::TensorList channels, bool relu);
BatchNormSumsSignature batch_norm_sums_operator;

/// Returns dx. `sums` are sums over `count` values of each channel. If `sums` has no value, the moments do not depend
/// on x.
using BatchNormBackwardSignature = at::Tensor(const at::Tensor& dy, const at::Tensor& x, at::TensorList channels,
                                              const std::optional<at::Tensor>& sums, double count, bool relu);
BatchNormBackwardSignature batch_norm_backward_operator;

/// Returns the gradient of GELU's input `x`, and partial sums of this gradient's columns (linear_gelu_call.hpp).
/// Tensors must be contiguous.
using GeluBackwardSignature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& d_y, const at::Tensor& x);
GeluBackwardSignature gelu_backward_operator;

}  // namespace mn::kernels
