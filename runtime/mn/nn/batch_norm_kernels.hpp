/// The steps of batch normalization, each a pass over a minibatch. libtorch's kernels compute moments. mn's fused
/// operators do the rest; they add a shortcut and apply ReLU in the same pass.
///
/// Cost on a GPU for a value of a 16-bit dtype: 16 bytes of memory traffic, in any of libtorch's memory formats.
/// Forward reads the input twice and writes the output; backward reads input and gradient twice and writes a gradient.
/// A shortcut adds 2 bytes forward, and 4 backward.
///
/// Shapes: x and dy are (N, C, …) and not empty; values of channels are (C). Minibatches are dense, and all have the
/// memory format of x. No function here communicates.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// The mean of each channel, and the reciprocal of its standard deviation, (variance + eps)^(-1/2).
struct ChannelMoments {
  at::Tensor mean;    ///< (C); (ranks, C) for the moments of each rank
  at::Tensor invstd;  ///< has the shape of `mean`
};

/// A layer's running statistics: (C) each, or undefined tensors if the layer tracks none.
struct RunningMoments {
  at::Tensor mean;
  at::Tensor variance;
  double momentum = 0;  ///< weight of the minibatch
};

/// Returns the dtype of the moments and sums of x: float64 on the CPU and for float64, otherwise float32.
[[nodiscard]] at::ScalarType moments_type(const at::Tensor& x);

[[nodiscard]] ChannelMoments channel_moments(const at::Tensor& x, double eps);
/// Returns the moments of this rank's values, and moves the running statistics `running` towards them.
[[nodiscard]] ChannelMoments own_moments(const at::Tensor& x, double eps, const RunningMoments& running);
/// Merges the moments of all ranks, and moves the running statistics `running` towards the result. Rank r has counts[r]
/// values of a channel; ranks without values pass any finite moments. `own_count` is the calling rank's number of
/// values. With fewer than two values, or very many, operators merge in place of a kernel, and the result may differ
/// between ranks by rounding. If all ranks together have fewer than two values, `running` stays unchanged.
[[nodiscard]] ChannelMoments merge_moments(const ChannelMoments& all, const at::Tensor& counts, std::int64_t own_count,
                                           double eps, const RunningMoments& running);

/// The numbers that the steps below take for each channel, (C) each: mean, invstd, weight and bias, in the dtype in
/// which operators on x compute.
using ChannelTensors = std::vector<at::Tensor>;
/// Returns the numbers of each channel. A missing weight counts as 1, a missing bias as 0.
[[nodiscard]] ChannelTensors channel_numbers(const at::Tensor& x, const ChannelMoments& moments,
                                             const std::optional<at::Tensor>& weight,
                                             const std::optional<at::Tensor>& bias);

/// Returns y = (x − mean) invstd weight + bias + added, in the dtype of x. With `relu`, negative results become 0.
[[nodiscard]] at::Tensor normalize(const at::Tensor& x, const std::optional<at::Tensor>& added,
                                   const ChannelTensors& channels, bool relu);

struct GradientSums {
  at::Tensor sums;     ///< (2, C): the gradients of bias and weight, from this rank's values
  at::Tensor d_added;  ///< gradient of `added`: dy, or 0 if ReLU made y 0; empty without a shortcut
};
/// If there was a shortcut, `y` is the result of normalize(); otherwise `y` has no value.
[[nodiscard]] GradientSums gradient_sums(const at::Tensor& dy, const at::Tensor& x, const std::optional<at::Tensor>& y,
                                         const ChannelTensors& channels, bool relu);
/// Returns the gradient of x. `sums` are sums over all `count` values of a channel. If `sums` has no value, the moments
/// do not depend on x. If there was a shortcut, `dy` is the shortcut's gradient, and `relu` is false.
[[nodiscard]] at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& x, const ChannelTensors& channels,
                                        const std::optional<at::Tensor>& sums, double count, bool relu);

}  // namespace mn
