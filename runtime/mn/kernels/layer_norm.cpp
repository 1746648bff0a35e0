#include <mn/kernels/layer_norm.hpp>

#include <string>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mn/core/error.hpp>
#include <mn/kernels/layer_norm_call.hpp>
#include <mn/kernels/operators.hpp>
#include <mn/tensor/autocast.hpp>

namespace mn {
namespace kernels {
namespace {

constexpr char kName[] = "layer_norm_residual()";

NormCall call_for(const at::Tensor& x, DType branch, const at::Tensor& weight, bool centered, double eps) {
  return {.stream = float_dtype(x, kName),
          .branch = branch,
          .rows = x.size(0),
          .width = x.size(1),
          .centered = centered,
          .eps = eps,
          .x = x.const_data_ptr(),
          .weight = weight.const_data_ptr()};
}

/// Returns the normalized rows in the type of the weight, and mean and scale of each row.
std::tuple<at::Tensor, at::Tensor> normalize_on_host(const at::Tensor& sum, const at::Tensor& weight,
                                                     const std::optional<at::Tensor>& bias, double eps, bool centered) {
  const at::Tensor x = sum.to(weight.scalar_type());
  if (centered) {
    const auto [normalized, mean, scale] = at::native_layer_norm(x, {x.size(1)}, weight, bias, eps);
    return {normalized, at::cat({mean, scale}, 1)};
  }
  const at::Tensor scale = at::rsqrt(x.square().mean(1, /*keepdim=*/true) + eps);
  return {x * scale * weight, at::cat({at::zeros_like(scale), scale}, 1)};
}

/// Returns the gradient of the stream without d_sum, and the gradients of weight and bias as (2, width).
std::tuple<at::Tensor, at::Tensor> backward_on_host(const at::Tensor& d_normalized, const at::Tensor& sum,
                                                    const at::Tensor& statistics, const at::Tensor& weight,
                                                    bool centered) {
  const at::Tensor x = sum.to(weight.scalar_type()), dn = d_normalized.to(weight.scalar_type());
  const at::Tensor scale = statistics.narrow(1, 1, 1).contiguous();
  if (centered) {
    const at::Tensor mean = statistics.narrow(1, 0, 1).contiguous();
    const auto [d_x, d_weight, d_bias] = at::native_layer_norm_backward(
        dn, x, {x.size(1)}, mean, scale, weight, /*bias, for its shape=*/weight, {true, true, true});
    return {d_x, at::stack({d_weight, d_bias})};
  }
  const at::Tensor n = x * scale, dng = dn * weight;
  const at::Tensor d_x = scale * (dng - n * (dng * n).mean(1, /*keepdim=*/true));
  return {d_x, at::stack({(dn * n).sum(0), dn.sum(0)})};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_forward_operator(const at::Tensor& x,
                                                                     const std::optional<at::Tensor>& branch,
                                                                     const at::Tensor& weight,
                                                                     const std::optional<at::Tensor>& bias, double eps,
                                                                     bool centered, at::ScalarType type) {
  const c10::DeviceGuard on_device(x.device());
  if (x.is_cpu()) {
    const at::Tensor sum = branch ? (x + *branch).to(x.scalar_type()) : at::empty({0}, x.options());
    const auto [normalized, statistics] = normalize_on_host(branch ? sum : x, weight, bias, eps, centered);
    return {sum, normalized.to(type), statistics};
  }
  const at::Tensor sum = branch ? at::empty_like(x) : at::empty({0}, x.options());
  const at::Tensor normalized = at::empty_like(x, x.options().dtype(type));
  const at::Tensor statistics = at::empty({x.size(0), 2}, x.options().dtype(real_type(x.scalar_type())));
  NormCall call = call_for(x, float_dtype(normalized, kName), weight, centered, eps);
  call.added = data_of(branch);
  call.bias = data_of(bias);
  call.sum = sum.data_ptr();
  call.normalized = normalized.data_ptr();
  call.statistics = statistics.data_ptr();
  norm_forward_on_device(call, stream_of(x));
  return {sum, normalized, statistics};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_backward_operator(
    const at::Tensor& d_normalized, const std::optional<at::Tensor>& d_sum, const at::Tensor& sum,
    const at::Tensor& statistics, const at::Tensor& weight, bool centered, bool with_branch) {
  const c10::DeviceGuard on_device(sum.device());
  if (sum.is_cpu()) {
    auto [d_x, of_parameters] = backward_on_host(d_normalized, sum, statistics, weight, centered);
    if (d_sum) d_x.add_(*d_sum);
    const at::Tensor d_branch =
        with_branch ? d_x.to(d_normalized.scalar_type()) : at::empty({0}, d_normalized.options());
    return {d_x.to(sum.scalar_type()), d_branch, of_parameters.unsqueeze(0)};
  }
  const at::Tensor d_x = at::empty_like(sum);
  const at::Tensor d_branch = with_branch ? at::empty_like(d_normalized) : at::empty({0}, d_normalized.options());
  NormCall call = call_for(sum, float_dtype(d_normalized, kName), weight, centered, 0);
  call.statistics = statistics.data_ptr();
  call.d_normalized = d_normalized.const_data_ptr();
  call.d_sum = data_of(d_sum);
  call.d_x = d_x.data_ptr();
  call.d_added = with_branch ? d_branch.data_ptr() : nullptr;
  const at::Tensor partials = at::empty({norm_partials_on_device(call), 2, call.width}, statistics.options());
  call.partials = partials.data_ptr();
  norm_backward_on_device(call, stream_of(sum));
  return {d_x, d_branch, partials};
}

}  // namespace kernels

namespace {

using kernels::text_of;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

/// Adds a branch to a stream and normalizes the sum, both (rows, width).
class Norm : public torch::autograd::Function<Norm> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const OptionalTensor& branch,
                               const at::Tensor& weight, const OptionalTensor& bias, double eps, bool centered,
                               at::ScalarType type) {
    auto [sum, normalized, statistics] = kernels::call_operator<kernels::NormForwardSignature>(
        "mn::norm_forward", x, branch, weight, bias, eps, centered, type);
    if (!branch) sum = x;
    context->set_materialize_grads(false);
    context->save_for_backward({sum, statistics, weight});
    context->saved_data["centered"] = centered;
    context->saved_data["with_branch"] = branch.has_value();
    context->saved_data["with_bias"] = bias.has_value();
    context->saved_data["type"] = type;
    return {sum, normalized};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled())
      throw ArgumentError("the gradients of layer_norm_residual() can't be differentiated (create_graph)");
    const auto saved = context->get_saved_variables();
    const bool with_branch = context->saved_data["with_branch"].toBool();
    const at::ScalarType type = context->saved_data["type"].toScalarType();
    const at::Tensor &d_sum = gradients[0], &d_normalized = gradients[1];
    variable_list result(7);        // gradients of x, branch, weight, bias and three numbers
    if (!d_normalized.defined()) {  // only the sum was used
      result[0] = d_sum;
      if (with_branch && d_sum.defined()) result[1] = d_sum.to(type);
      return result;
    }
    const bool casts = with_branch && type != saved[0].scalar_type();
    auto [d_x, d_branch, partials] = kernels::call_operator<kernels::NormBackwardSignature>(
        "mn::norm_backward", d_normalized.contiguous(),
        d_sum.defined() ? OptionalTensor(d_sum.contiguous()) : std::nullopt, saved[0], saved[1], saved[2],
        context->saved_data["centered"].toBool(), casts);
    const at::Tensor of_parameters = partials.sum(0);
    result[0] = d_x;
    if (with_branch) result[1] = casts ? d_branch : d_x;
    result[2] = of_parameters[0];
    if (context->saved_data["with_bias"].toBool()) result[3] = of_parameters[1];
    return result;
  }
};

void check(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight, const at::Tensor& bias) {
  static_cast<void>(kernels::float_dtype(x, kernels::kName));
  const bool fits = x.dim() >= 1 && x.size(-1) > 0 && (!branch.defined() || branch.sizes() == x.sizes());
  if (!fits)
    throw ArgumentError("layer_norm_residual(): a stream " + text_of(x) +
                        (branch.defined() ? " with a branch " + text_of(branch) : " is empty in its last dimension"));
  for (const at::Tensor& parameter : {weight, bias}) {
    if (!parameter.defined() || (parameter.dim() == 1 && parameter.size(0) == x.size(-1))) continue;
    throw ArgumentError("layer_norm_residual(): a weight or bias " + text_of(parameter) + " for a stream " +
                        text_of(x));
  }
  for (const at::Tensor& other : {branch, weight, bias}) {
    if (other.defined() && other.device() != x.device())
      throw ArgumentError("layer_norm_residual(): a stream " + text_of(x) + " with a tensor " + text_of(other));
  }
}

/// The type in which kernels write the normalized tensor: the branch's type, or `wanted` without a branch. If kernels
/// cannot combine this type with the stream's type, returns the stream's type.
at::ScalarType kernel_type(const at::Tensor& x, const at::Tensor& branch, at::ScalarType wanted) {
  const at::ScalarType type = branch.defined() ? branch.scalar_type() : wanted;
  const at::Tensor example = at::empty({0}, at::TensorOptions().dtype(type));
  const bool is_taken =
      kernels::takes_types(kernels::float_dtype(x, kernels::kName), kernels::float_dtype(example, kernels::kName));
  return is_taken ? type : x.scalar_type();
}

ResidualNorm normalize(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight, const at::Tensor& bias,
                       double eps, bool centered) {
  check(x, branch, weight, bias);
  const AutocastSettings autocast = AutocastSettings::of(x.device().type());
  const at::ScalarType wanted = autocast.enabled   ? autocast.dtype
                                : branch.defined() ? branch.scalar_type()
                                                   : x.scalar_type();
  const at::ScalarType type = kernel_type(x, branch, wanted);
  const at::ScalarType real = kernels::real_type(x.scalar_type());
  const auto rows = [&](const at::Tensor& tensor) {
    return tensor.reshape({x.numel() / x.size(-1), x.size(-1)}).contiguous();
  };
  const OptionalTensor added = branch.defined() ? OptionalTensor(rows(branch.to(type))) : std::nullopt;
  const OptionalTensor shift = bias.defined() ? OptionalTensor(bias.to(real).contiguous()) : std::nullopt;
  const auto made = Norm::apply(rows(x), added, weight.to(real).contiguous(), shift, eps, centered, type);
  return {made[0].view(x.sizes()), made[1].view(x.sizes()).to(wanted)};
}

}  // namespace

ResidualNorm layer_norm_residual(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                                 const at::Tensor& bias, double eps) {
  return normalize(x, branch, weight, bias, eps, /*centered=*/true);
}

ResidualNorm rms_norm_residual(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight, double eps) {
  return normalize(x, branch, weight, at::Tensor(), eps, /*centered=*/false);
}

}  // namespace mn
