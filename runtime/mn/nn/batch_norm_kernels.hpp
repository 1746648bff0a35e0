/// The kernels of batch normalization over all ranks, each a pass over a minibatch.
///
/// On GPUs, libtorch's kernels of torch.nn.SyncBatchNorm run. Forward reads the input twice and writes the output,
/// backward reads input and gradient twice and writes a gradient: 8 elements of the input's dtype for each value, in
/// any of libtorch's memory formats. On the CPU, whose libtorch lacks these kernels, ordinary operators compute the
/// same.
///
/// Shapes: x, dy (N, C, …), not empty; values of a channel (C). Minibatches are dense, and dy has the memory format of
/// x. Nothing here communicates.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

namespace mn {

/// The mean of each channel, and the reciprocal of its standard deviation, (variance + eps)^(-1/2).
struct ChannelMoments {
  at::Tensor mean;    ///< (C); (ranks, C) for the moments of each rank
  at::Tensor invstd;  ///< as `mean`
};

/// A layer's running statistics: (C) each, or undefined tensors if the layer tracks none.
struct RunningMoments {
  at::Tensor mean;
  at::Tensor variance;
  double momentum = 0;  ///< weight of the minibatch
};

/// Sums over all values of a channel, one number for each channel.
struct GradientSums {
  at::Tensor dy;          ///< Σ dy
  at::Tensor dy_xmu;      ///< Σ dy (x − mean)
  at::Tensor for_weight;  ///< gradient of weight; undefined without weight
  at::Tensor for_bias;    ///< gradient of bias; undefined without weight
};

/// Returns the dtype of the moments and sums of x: float64 on the CPU and for float64, otherwise float32.
[[nodiscard]] at::ScalarType moments_type(const at::Tensor& x);

[[nodiscard]] ChannelMoments channel_moments(const at::Tensor& x, double eps);
/// Merges the moments of all ranks, and moves the running statistics `running` towards the result. Rank r has counts[r]
/// values of a channel; ranks without values pass any finite moments. `own_count` is this rank's number of values: with
/// fewer than two values, or very many, operators merge in place of a kernel, and the result may differ between ranks
/// by rounding. If all ranks together have fewer than two values, `running` stays unchanged.
[[nodiscard]] ChannelMoments merge_moments(const ChannelMoments& all, const at::Tensor& counts, std::int64_t own_count,
                                           double eps, const RunningMoments& running);
/// Returns (x − mean) invstd weight + bias, in the dtype of x.
[[nodiscard]] at::Tensor normalize(const at::Tensor& x, const ChannelMoments& moments,
                                   const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias);
[[nodiscard]] GradientSums gradient_sums(const at::Tensor& dy, const at::Tensor& x, const ChannelMoments& moments,
                                         const std::optional<at::Tensor>& weight);
/// Returns the gradient of x. `dy_sum` and `dy_xmu_sum` are sums over all ranks.
[[nodiscard]] at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& x, const ChannelMoments& moments,
                                        const std::optional<at::Tensor>& weight, const at::Tensor& dy_sum,
                                        const at::Tensor& dy_xmu_sum, const at::Tensor& counts);

}  // namespace mn
