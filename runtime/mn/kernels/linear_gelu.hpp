/// A linear layer followed by GELU. The backward of GELU also computes the gradient of the layer's bias.
#pragma once

#include <ATen/core/Tensor.h>

namespace mn {

/// Computes gelu(x weightᵀ + bias), where gelu is the approximation by tanh, as GPT-2 has it. `x` is (…, C), `weight`
/// (F, C) and `bias` (F); the result is (…, F). Tensors are float32, bfloat16, float16 or float64. Under autocast the
/// result has autocast's type.
///
/// The result equals torch::gelu(torch::linear(x, weight, bias), "tanh"). The gradient of the bias is summed in float32
/// (in float64 for float64). On a GPU one pass over memory computes the gradients of GELU's input and of the bias, with
/// 6 bytes of memory traffic an element of a 16-bit result. The gradients can't be differentiated. Throws ArgumentError
/// for other types, and what torch::linear throws for wrong shapes. Local: sends nothing to other ranks.
[[nodiscard]] at::Tensor linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace mn
