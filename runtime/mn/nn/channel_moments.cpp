// (1) libtorch's merge divides by the number of values up to now, which is 0 if the first ranks have no values.
//     Therefore a rank without values counts as kAlmostNone values, too few to change a result.
// (2) To move the running variance, libtorch's merge divides by the number of all values less 1, and counts with 32
//     bits. If a rank has at least two values, the divisor is not 0. The number of all values is estimated from the
//     rank's own number. If libtorch's merge cannot be used, operators merge.
#include <mn/nn/channel_moments.hpp>

#include <tuple>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm_gather_stats_with_counts.h>
#include <ATen/ops/batch_norm_stats.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>

#include <mn/kernels/operators.hpp>

namespace mn {
namespace {

constexpr double kAlmostNone = 1e-30;

std::vector<std::int64_t> reduced_dims(const at::Tensor& x) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

/// Calls move(moved) on the running statistics in dtype `type`. If to() has to make a copy, the copy is written back.
template <class Move>
void move_running(const RunningMoments& running, at::ScalarType type, const Move& move) {
  if (!running.mean.defined()) return move(running);
  const RunningMoments moved{running.mean.to(type), running.variance.to(type), running.momentum};
  move(moved);
  if (!moved.mean.is_same(running.mean)) running.mean.copy_(moved.mean);
  if (!moved.variance.is_same(running.variance)) running.variance.copy_(moved.variance);
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

/// True if libtorch's kernel may merge the ranks' moments: invariant (2) at the top of this file.
bool kernel_can_merge(std::int64_t own_count, std::int64_t ranks) {
  return own_count >= 2 && own_count < (std::int64_t{1} << 30) / ranks;
}

}  // namespace

at::ScalarType moments_type(const at::Tensor& x) {
  return x.is_cpu() ? at::kDouble : kernels::real_type(x.scalar_type());
}

ChannelMoments channel_moments(const at::Tensor& x, double eps) {
  ChannelMoments moments;
  if (!x.is_cpu()) {
    std::tie(moments.mean, moments.invstd) = at::batch_norm_stats(x, eps);
    return moments;
  }
  const auto [variance, mean] =
      at::var_mean(x.to(kernels::real_type(x.scalar_type())), reduced_dims(x), /*correction=*/0);
  return {mean.to(at::kDouble), at::rsqrt(variance.to(at::kDouble) + eps)};
}

ChannelMoments own_moments(const at::Tensor& x, double eps, const RunningMoments& running) {
  if (!running.mean.defined()) return channel_moments(x, eps);
  ChannelMoments moments;
  move_running(running, kernels::real_type(x.scalar_type()), [&](const RunningMoments& moved) {
    const auto [mean, variance] = at::batch_norm_update_stats(x, moved.mean, moved.variance, moved.momentum);
    moments = {mean, at::rsqrt(variance + eps)};
  });
  return moments;
}

ChannelMoments merge_moments(const ChannelMoments& all, const at::Tensor& counts, std::int64_t own_count, double eps,
                             const RunningMoments& running) {
  ChannelMoments merged;
  move_running(running, all.mean.scalar_type(), [&](const RunningMoments& moved) {
    if (all.mean.is_cpu() || !kernel_can_merge(own_count, counts.numel())) {
      merged = merge_by_operators(all, counts, eps, moved);
    } else {
      std::tie(merged.mean, merged.invstd) =
          at::batch_norm_gather_stats_with_counts(all.mean, all.mean, all.invstd, moved.mean, moved.variance,
                                                  moved.momentum, eps, counts.clamp_min(kAlmostNone));  // not 0
    }
  });
  return merged;
}

}  // namespace mn
