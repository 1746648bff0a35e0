// The operators of batch normalization. They call the CPU's loops and the GPU's kernels.
#include <mn/kernels/operators.hpp>

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <mn/kernels/batch_norm_call.hpp>
#include <mn/kernels/batch_norm_loops.hpp>

namespace mn::kernels {
namespace {

constexpr std::int64_t kElementsOfChunk = std::int64_t{1} << 14;  // fewer are not worth another thread
constexpr std::int64_t kRowsOfSum = 64;  // rows that one thread adds up, if all channels are in a row
constexpr std::int64_t kMaxSums = 64;    // most partial sums; their number does not depend on the number of threads

/// Returns the arguments of the kernels for the minibatch `x`. If the memory of `x` is not contiguous, it is
/// channels_last.
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

/// Calls work(first, last) for ranges of the call's rows, on several threads.
template <class Work>
void for_rows(const BatchNormCall& call, const Work& work) {
  const std::int64_t length = call.inner > 1 ? call.inner : call.channels;
  at::parallel_for(0, rows_of(call), std::max<std::int64_t>(kElementsOfChunk / length, 1), work);
}

void sum_on_host(const BatchNormCall& call, std::int64_t parts) {
  if (call.inner > 1) {
    return for_rows(
        call, [&](std::int64_t first, std::int64_t last) { batch_norm_sums_on_host(call, first, last, /*part=*/0); });
  }
  at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part)
      batch_norm_sums_on_host(call, part * call.outer / parts, (part + 1) * call.outer / parts, part);
  });
}

std::int64_t parts_for(const BatchNormCall& call, bool on_host) {
  if (!on_host) return batch_norm_parts_on_device(call);
  return call.inner > 1 ? call.outer : std::min((call.outer + kRowsOfSum - 1) / kRowsOfSum, kMaxSums);
}

}  // namespace

at::Tensor batch_norm_forward_operator(const at::Tensor& x, const std::optional<at::Tensor>& added,
                                       at::TensorList channels, bool relu) {
  const c10::DeviceGuard on_device(x.device());
  const at::Tensor y = at::empty_like(x);
  BatchNormCall call = batch_norm_call(x, channels, relu);
  call.added = data_of(added);
  call.y = y.data_ptr();
  if (x.is_cpu())
    for_rows(call, [&](std::int64_t first, std::int64_t last) { batch_norm_forward_on_host(call, first, last); });
  else
    batch_norm_forward_on_device(call, stream_of(x));
  return y;
}

std::tuple<at::Tensor, at::Tensor> batch_norm_sums_operator(const at::Tensor& dy, const at::Tensor& x,
                                                            const std::optional<at::Tensor>& mask,
                                                            at::TensorList channels, bool relu) {
  const c10::DeviceGuard on_device(x.device());
  const at::Tensor d_added = mask ? at::empty_like(x) : at::empty({0}, x.options());
  BatchNormCall call = batch_norm_call(x, channels, relu);
  call.mask = data_of(mask);
  call.d_y = dy.const_data_ptr();
  call.d_added = mask ? d_added.data_ptr() : nullptr;
  const std::int64_t parts = parts_for(call, x.is_cpu());
  const auto options = channels[0].options();
  const at::Tensor partials =
      x.is_cpu() ? at::zeros({parts, 2, call.channels}, options) : at::empty({parts, 2, call.channels}, options);
  call.partials = partials.data_ptr();
  if (x.is_cpu())
    sum_on_host(call, parts);
  else
    batch_norm_sums_on_device(call, stream_of(x));
  return {partials.sum(0), d_added};
}

at::Tensor batch_norm_backward_operator(const at::Tensor& dy, const at::Tensor& x, at::TensorList channels,
                                        const std::optional<at::Tensor>& sums, double count, bool relu) {
  const c10::DeviceGuard on_device(x.device());
  const at::Tensor d_x = at::empty_like(x);
  BatchNormCall call = batch_norm_call(x, channels, relu);
  call.count = count;
  call.d_y = dy.const_data_ptr();
  call.sums = data_of(sums);
  call.d_x = d_x.data_ptr();
  if (x.is_cpu())
    for_rows(call, [&](std::int64_t first, std::int64_t last) { batch_norm_backward_on_host(call, first, last); });
  else
    batch_norm_backward_on_device(call, stream_of(x));
  return d_x;
}

}  // namespace mn::kernels
