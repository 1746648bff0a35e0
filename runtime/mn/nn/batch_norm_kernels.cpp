// (1) libtorch's merge divides by the number of values so far: by 0 if the first ranks have no values. A rank without
//     values therefore counts as kAlmostNone values, too few to change a result.
// (2) To move the running variance, libtorch's merge divides by the number of all values less 1, and counts with 32
//     bits. If a rank has at least two values, the divisor is not 0. The total is estimated from the rank's own count.
//     Otherwise operators merge.
#include <mn/nn/batch_norm_kernels.hpp>

#include <tuple>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_elemt.h>
#include <ATen/ops/batch_norm_gather_stats_with_counts.h>
#include <ATen/ops/batch_norm_stats.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>

namespace mn {
namespace {

constexpr double kAlmostNone = 1e-30;

/// Returns all dimensions of the minibatch except dimension 1, the channels.
std::vector<std::int64_t> reduced_dims(const at::Tensor& x) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

/// Returns the dtype in which operators on the minibatch compute.
at::ScalarType compute_type(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// Reshapes `values`, one for each channel, so that they broadcast to the minibatch's shape.
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[1] = values.numel();
  return values.to(compute_type(x)).view(shape);
}

/// Converts the weight to the dtype of the moments, in which libtorch's kernels take it. Returns no value if there is
/// no weight.
std::optional<at::Tensor> for_kernel(const std::optional<at::Tensor>& weight, const at::Tensor& moment) {
  return weight ? std::optional(weight->to(moment.scalar_type())) : std::nullopt;
}

at::Tensor scale_of(const ChannelMoments& moments, const std::optional<at::Tensor>& weight) {
  return weight ? moments.invstd * *weight : moments.invstd;
}

ChannelMoments merge_by_operators(const ChannelMoments& all, const at::Tensor& counts, double eps,
                                  const RunningMoments& running) {
  const at::Tensor count = counts.sum();
  const at::Tensor share = (counts / count.clamp_min(1)).unsqueeze(1);
  const at::Tensor mean = (all.mean * share).sum(0);
  const at::Tensor within = all.invstd.pow(-2) - eps;  // variances; Chan, Golub and LeVeque's formula merges them
  const at::Tensor variance = ((within + (all.mean - mean).square()) * share).sum(0).clamp_min(0);
  if (running.mean.defined()) {
    const at::Tensor momentum = (count >= 2).to(mean.scalar_type()) * running.momentum;
    const at::Tensor unbiased = variance * (count / (count - 1).clamp_min(1));
    running.mean.lerp_(mean, momentum);
    running.variance.lerp_(unbiased, momentum);
  }
  return {mean, at::rsqrt(variance + eps)};
}

/// True if libtorch's kernel may merge the ranks' moments (2). The kernel's divisor is not 0 if this rank has at least
/// two values, and the estimated number of all values must fit into 32 bits.
bool kernel_can_merge(std::int64_t own_count, std::int64_t ranks) {
  return own_count >= 2 && own_count < (std::int64_t{1} << 30) / ranks;
}

}  // namespace

at::ScalarType moments_type(const at::Tensor& x) { return x.is_cpu() ? at::kDouble : compute_type(x); }

ChannelMoments channel_moments(const at::Tensor& x, double eps) {
  ChannelMoments moments;
  if (!x.is_cpu()) {
    std::tie(moments.mean, moments.invstd) = at::batch_norm_stats(x, eps);
    return moments;
  }
  const auto [variance, mean] = at::var_mean(x.to(compute_type(x)), reduced_dims(x), /*correction=*/0);
  return {mean.to(at::kDouble), at::rsqrt(variance.to(at::kDouble) + eps)};
}

ChannelMoments merge_moments(const ChannelMoments& all, const at::Tensor& counts, std::int64_t own_count, double eps,
                             const RunningMoments& running) {
  // The kernel and the operators both take running statistics in the dtype of the moments. to() copies only if the
  // dtype differs; a copy is written back below.
  RunningMoments moved = running;
  if (running.mean.defined()) {
    moved.mean = running.mean.to(all.mean.scalar_type());
    moved.variance = running.variance.to(all.mean.scalar_type());
  }
  ChannelMoments merged;
  if (all.mean.is_cpu() || !kernel_can_merge(own_count, counts.numel())) {
    merged = merge_by_operators(all, counts, eps, moved);
  } else {
    std::tie(merged.mean, merged.invstd) =
        at::batch_norm_gather_stats_with_counts(all.mean, all.mean, all.invstd, moved.mean, moved.variance,
                                                running.momentum, eps, counts.clamp_min(kAlmostNone));  // (1): not 0
  }
  if (running.mean.defined() && !moved.mean.is_same(running.mean)) running.mean.copy_(moved.mean);
  if (running.mean.defined() && !moved.variance.is_same(running.variance)) running.variance.copy_(moved.variance);
  return merged;
}

at::Tensor normalize(const at::Tensor& x, const ChannelMoments& moments, const std::optional<at::Tensor>& weight,
                     const std::optional<at::Tensor>& bias) {
  const at::Tensor& mean = moments.mean;
  if (!x.is_cpu()) {
    return at::batch_norm_elemt(x, for_kernel(weight, mean), for_kernel(bias, mean), mean, moments.invstd, /*eps=*/0);
  }
  const at::Tensor scale = by_channel(scale_of(moments, weight), x), centered = x - by_channel(mean, x);
  const at::Tensor output = bias ? at::addcmul(by_channel(*bias, x), centered, scale) : centered * scale;
  return output.to(x.scalar_type());
}

GradientSums gradient_sums(const at::Tensor& dy, const at::Tensor& x, const ChannelMoments& moments,
                           const std::optional<at::Tensor>& weight) {
  GradientSums sums;
  if (!x.is_cpu()) {
    const bool affine = weight.has_value();
    std::tie(sums.dy, sums.dy_xmu, sums.for_weight, sums.for_bias) = at::batch_norm_backward_reduce(
        dy, x, moments.mean, moments.invstd, for_kernel(weight, moments.mean), /*input_g=*/true, affine, affine);
  } else {
    const at::Tensor wide = dy.to(compute_type(x));
    sums.dy = wide.sum(reduced_dims(x)).to(at::kDouble);
    sums.dy_xmu = (wide * (x - by_channel(moments.mean, x))).sum(reduced_dims(x)).to(at::kDouble);
    if (weight) sums.for_weight = sums.dy_xmu * moments.invstd, sums.for_bias = sums.dy;
  }
  if (!weight) return sums;
  sums.for_weight = sums.for_weight.to(weight->scalar_type());
  sums.for_bias = sums.for_bias.to(weight->scalar_type());
  return sums;
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& x, const ChannelMoments& moments,
                          const std::optional<at::Tensor>& weight, const at::Tensor& dy_sum,
                          const at::Tensor& dy_xmu_sum, const at::Tensor& counts) {
  const auto& [mean, invstd] = moments;
  if (!x.is_cpu()) {
    return at::batch_norm_backward_elemt(dy, x, mean, invstd, for_kernel(weight, mean), dy_sum, dy_xmu_sum,
                                         counts.to(at::kInt));
  }
  const at::Tensor count = counts.sum();
  const at::Tensor slope = dy_xmu_sum / count * invstd.square();
  const at::Tensor rest =
      dy.to(compute_type(x)) - by_channel(dy_sum / count, x) - (x - by_channel(mean, x)) * by_channel(slope, x);
  return (rest * by_channel(scale_of(moments, weight), x)).to(x.scalar_type());
}

}  // namespace mn
