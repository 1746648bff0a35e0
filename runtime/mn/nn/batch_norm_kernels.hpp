/// The steps of batch normalization, each a pass over a minibatch: moments by libtorch's kernels, everything after them
/// by mn's fused operators, which add a shortcut and apply ReLU in the same pass.
///
/// Bytes that a value of a 16-bit dtype moves on a GPU, in any of libtorch's memory formats: forward reads the input
/// twice and writes the output; backward reads input and gradient twice and writes a gradient: 16. A shortcut adds 2
/// forward, and 4 backward.
///
/// Shapes: x, dy (N, C, …), not empty; values of a channel (C). Minibatches are dense, and all have the memory format
/// of x. Nothing here communicates.
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
/// values of a channel; ranks without values pass any finite moments. `own_count` is this rank's number of values: with
/// fewer than two values, or very many, operators merge in place of a kernel, and the result may differ between ranks
/// by rounding. If all ranks together have fewer than two values, `running` stays unchanged.
[[nodiscard]] ChannelMoments merge_moments(const ChannelMoments& all, const at::Tensor& counts, std::int64_t own_count,
                                           double eps, const RunningMoments& running);

/// The numbers that the steps below take for each channel, (C) each: mean, invstd, weight and bias, in the dtype in
/// which operators on x compute.
using ChannelTensors = std::vector<at::Tensor>;
/// A missing weight is 1, a missing bias 0.
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
/// `y` is normalize()'s result if there was a shortcut; otherwise it has no value.
[[nodiscard]] GradientSums gradient_sums(const at::Tensor& dy, const at::Tensor& x, const std::optional<at::Tensor>& y,
                                         const ChannelTensors& channels, bool relu);
/// Returns the gradient of x. `sums` are those of all `count` values of a channel; without them the moments do not
/// depend on x. If there was a shortcut, `dy` is its gradient, and `relu` is false.
[[nodiscard]] at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& x, const ChannelTensors& channels,
                                        const std::optional<at::Tensor>& sums, double count, bool relu);

}  // namespace mn
