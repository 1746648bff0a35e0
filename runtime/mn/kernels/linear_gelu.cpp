#include <mn/kernels/linear_gelu.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mn/core/error.hpp>
#include <mn/kernels/linear_gelu_call.hpp>
#include <mn/kernels/operators.hpp>

namespace mn {
namespace kernels {

std::tuple<at::Tensor, at::Tensor> gelu_backward_operator(const at::Tensor& d_y, const at::Tensor& x) {
  const c10::DeviceGuard on_device(x.device());
  const std::int64_t width = x.size(-1);
  const at::ScalarType real = real_type(x.scalar_type());
  if (x.numel() == 0) return {at::empty_like(x), at::zeros({0, width}, x.options().dtype(real))};
  if (x.is_cpu()) {
    const at::Tensor d_x = at::gelu_backward(d_y.to(real), x.to(real), "tanh");
    return {d_x.to(x.scalar_type()), d_x.view({-1, width}).sum(0, /*keepdim=*/true)};
  }
  const at::Tensor d_x = at::empty_like(x);
  GeluCall call = {.dtype = float_dtype(x, "linear_gelu()"),
                   .rows = x.numel() / width,
                   .width = width,
                   .x = x.const_data_ptr(),
                   .d_y = d_y.const_data_ptr(),
                   .d_x = d_x.data_ptr()};
  call.parts = gelu_partials_on_device(call);
  const at::Tensor partials = at::empty({call.parts, width}, x.options().dtype(real));
  call.partials = partials.data_ptr();
  gelu_backward_on_device(call, stream_of(x));
  return {d_x, partials};
}

}  // namespace kernels

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// GELU of an input x to which the bias is already added. Backward also computes the gradient of this bias.
class Gelu : public torch::autograd::Function<Gelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& bias) {
    context->save_for_backward({x});
    context->saved_data["type"] = bias.scalar_type();
    return at::gelu(x, "tanh");
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled())
      throw ArgumentError("the gradients of linear_gelu() can't be differentiated (create_graph)");
    const auto [d_x, partials] = kernels::call_operator<kernels::GeluBackwardSignature>(
        "mn::gelu_backward", gradients[0].contiguous(), context->get_saved_variables()[0].contiguous());
    return {d_x, partials.sum(0).to(context->saved_data["type"].toScalarType())};
  }
};

}  // namespace

at::Tensor linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  static_cast<void>(kernels::float_dtype(x, "linear_gelu()"));
  return Gelu::apply(at::linear(x, weight, bias.detach()), bias);
}

}  // namespace mn
