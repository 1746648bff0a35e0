#include <mn/kernels/linear_gelu.hpp>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mn/core/error.hpp>
#include <mn/kernels/linear_gelu_call.hpp>
#include <mn/kernels/linear_gelu_loops.hpp>
#include <mn/kernels/operators.hpp>
#include <mn/kernels/row.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace kernels {
namespace {

/// True if the elements of each row can be loaded and stored as vectors of kSome elements (row.hpp).
bool is_aligned(const GeluCall& call) {
  std::uintptr_t bits = 0;
  for (const void* pointer : {call.x, call.d_y, static_cast<const void*>(call.d_x)})
    bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return bits % kVectorBytes == 0 && call.width % kSome == 0;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> gelu_backward_operator(const at::Tensor& d_y, const at::Tensor& x) {
  const c10::DeviceGuard on_device(x.device());
  const at::Tensor d_x = at::empty_like(x);
  const std::int64_t width = x.size(-1);
  const auto numbers = x.options().dtype(real_type(x.scalar_type()));
  if (x.numel() == 0) return {d_x, at::zeros({0, width}, numbers)};
  GeluCall call = {.dtype = float_dtype(x, "linear_gelu()"),
                   .rows = x.numel() / width,
                   .width = width,
                   .x = x.const_data_ptr(),
                   .d_y = d_y.const_data_ptr(),
                   .d_x = d_x.data_ptr()};
  call.aligned = is_aligned(call);
  call.parts = x.is_cpu() ? parts_on_host(call.rows) : gelu_partials_on_device(call);
  const at::Tensor partials = at::zeros({call.parts, width}, numbers);
  call.partials = partials.data_ptr();
  if (!x.is_cpu()) {
    gelu_backward_on_device(call, current_stream(Device{DeviceType::kCuda, x.get_device()}).native_handle());
    return {d_x, partials};
  }
  at::parallel_for(0, call.parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part)
      gelu_backward_on_host(call, part * call.rows / call.parts, (part + 1) * call.rows / call.parts, part);
  });
  return {d_x, partials};
}

}  // namespace kernels

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// GELU as one node of autograd's graph. The bias is already added to the input x, and the node also computes the
/// gradient of this bias.
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
