// The operators of batch normalization: the GPU's kernels, and libtorch's operators on a CPU.
#include <mn/kernels/operators.hpp>

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/threshold_backward.h>
#include <c10/core/DeviceGuard.h>

#include <mn/kernels/batch_norm_call.hpp>

namespace mn::kernels {
namespace {

/// If the memory of `x` is not contiguous, it is channels_last.
BatchNormCall batch_norm_call(const at::Tensor& x, at::TensorList channels, bool relu) {
  const std::int64_t images = x.size(0), count = x.size(1);
  const bool is_last = !x.is_contiguous();
  return {.dtype = float_dtype(x, "batch normalization"),
          .outer = is_last ? x.numel() / count : images,
          .channels = count,
          .inner = is_last ? 1 : x.numel() / (images * count),
          .relu = relu,
          .x = x.const_data_ptr(),
          .mean = channels[0].const_data_ptr(),
          .invstd = channels[1].const_data_ptr(),
          .weight = channels[2].const_data_ptr(),
          .bias = channels[3].const_data_ptr()};
}

/// Returns (x − mean) invstd weight + bias. `x` has the type of the channels.
at::Tensor normalized_on_host(const at::Tensor& x, at::TensorList channels) {
  const at::Tensor variance = channels[1].pow(-2);
  return std::get<0>(at::native_batch_norm(x, channels[2], channels[3], channels[0], variance, /*training=*/false,
                                           /*momentum=*/0, /*eps=*/0));
}

/// Returns g (batch_norm_call.hpp), with ReLU's mask from `y`, or from `x` if there is no `y`.
at::Tensor masked_gradient(const at::Tensor& dy, const at::Tensor& x, const std::optional<at::Tensor>& y,
                           at::TensorList channels, bool relu) {
  const at::ScalarType real = channels[0].scalar_type();
  if (!relu) return dy.to(real);
  return at::threshold_backward(dy.to(real), y ? y->to(real) : normalized_on_host(x.to(real), channels), 0);
}

at::Tensor input_gradient_on_host(const at::Tensor& g, const at::Tensor& x, at::TensorList channels,
                                  const std::optional<at::Tensor>& sums, double count) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[1] = x.size(1);
  const at::Tensor mean = channels[0].view(shape), invstd = channels[1].view(shape), weight = channels[2].view(shape);
  if (!sums) return g * (invstd * weight);
  const at::Tensor db = sums->select(0, 0).view(shape) / count, dw = sums->select(0, 1).view(shape) / count;
  return (x.to(g.scalar_type()) - mean).mul_(-invstd * dw).add_(g).sub_(db).mul_(invstd * weight);
}

}  // namespace

at::Tensor batch_norm_forward_operator(const at::Tensor& x, const std::optional<at::Tensor>& added,
                                       at::TensorList channels, bool relu) {
  const c10::DeviceGuard on_device(x.device());
  if (x.is_cpu()) {
    const at::Tensor y = normalized_on_host(x.to(channels[0].scalar_type()), channels);
    if (added) y.add_(*added);
    if (relu) y.relu_();
    return y.to(x.scalar_type());
  }
  const at::Tensor y = at::empty_like(x);
  BatchNormCall call = batch_norm_call(x, channels, relu);
  call.added = data_of(added);
  call.y = y.data_ptr();
  batch_norm_forward_on_device(call, stream_of(x));
  return y;
}

std::tuple<at::Tensor, at::Tensor> batch_norm_sums_operator(const at::Tensor& dy, const at::Tensor& x,
                                                            const std::optional<at::Tensor>& mask,
                                                            at::TensorList channels, bool relu) {
  const c10::DeviceGuard on_device(x.device());
  if (x.is_cpu()) {
    const at::Tensor g = masked_gradient(dy, x, mask, channels, relu);
    const auto [none, dw, db] =
        at::native_batch_norm_backward(g, x.to(g.scalar_type()), channels[2], {}, {}, channels[0], channels[1],
                                       /*train=*/true, /*eps=*/0, {false, true, true});
    return {at::stack({db, dw}), mask ? g.to(x.scalar_type()) : at::empty({0}, x.options())};
  }
  const at::Tensor d_added = mask ? at::empty_like(x) : at::empty({0}, x.options());
  BatchNormCall call = batch_norm_call(x, channels, relu);
  call.mask = data_of(mask);
  call.d_y = dy.const_data_ptr();
  call.d_added = mask ? d_added.data_ptr() : nullptr;
  const at::Tensor partials = at::empty({batch_norm_parts_on_device(call), 2, call.channels}, channels[0].options());
  call.partials = partials.data_ptr();
  batch_norm_sums_on_device(call, stream_of(x));
  return {partials.sum(0), d_added};
}

at::Tensor batch_norm_backward_operator(const at::Tensor& dy, const at::Tensor& x, at::TensorList channels,
                                        const std::optional<at::Tensor>& sums, double count, bool relu) {
  const c10::DeviceGuard on_device(x.device());
  if (x.is_cpu()) {
    const at::Tensor g = masked_gradient(dy, x, /*y=*/std::nullopt, channels, relu);
    return input_gradient_on_host(g, x, channels, sums, count).to(x.scalar_type());
  }
  const at::Tensor d_x = at::empty_like(x);
  BatchNormCall call = batch_norm_call(x, channels, relu);
  call.count = count;
  call.d_y = dy.const_data_ptr();
  call.sums = data_of(sums);
  call.d_x = d_x.data_ptr();
  batch_norm_backward_on_device(call, stream_of(x));
  return d_x;
}

}  // namespace mn::kernels
