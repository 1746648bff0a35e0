// Autocast on the test device: of the operators that libtorch runs in 16 bits and in float32 on CUDA, those of the
// networks that are tested here.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "tests/support/test_device/streams.hpp"

namespace mn::test_device {
namespace {

using torch::jit::Stack;

at::Tensor cast(const at::Tensor& tensor, at::ScalarType dtype) {
  const bool casts = tensor.defined() && tensor.device().type() == kType && tensor.is_floating_point() &&
                     tensor.scalar_type() != at::kDouble;
  return casts ? tensor.to(dtype) : tensor;
}

/// The operator with its tensors of that type.
void run_in(at::ScalarType dtype, const c10::OperatorHandle& op, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  for (auto arg = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size()); arg != stack->end();
       ++arg) {
    if (arg->isTensor()) *arg = cast(arg->toTensor(), dtype);
  }
  op.callBoxed(stack);
}

void in_16_bits(const c10::OperatorHandle& op, Stack* stack) {
  run_in(at::autocast::get_autocast_dtype(kType), op, stack);
}

void in_float32(const c10::OperatorHandle& op, Stack* stack) { run_in(at::kFloat, op, stack); }

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  for (const char* op : {"linear", "matmul", "mm", "addmm", "bmm", "conv2d", "scaled_dot_product_attention"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&in_16_bits>());
  }
  for (const char* op :
       {"softmax.int", "log_softmax.int", "layer_norm", "cross_entropy_loss", "nll_loss", "mse_loss"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&in_float32>());
  }
}

}  // namespace
}  // namespace mn::test_device
