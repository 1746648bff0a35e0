/// The moments of a minibatch's channels, by libtorch's kernels: of this rank's values, and of all ranks' values.
///
/// Shapes: x is (N, C, …), dense and not empty; moments are (C). No function here communicates.
#pragma once

#include <cstdint>

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

/// Returns the dtype of the moments of x: float64 on the CPU and for float64, otherwise float32.
[[nodiscard]] at::ScalarType moments_type(const at::Tensor& x);

[[nodiscard]] ChannelMoments channel_moments(const at::Tensor& x, double eps);
/// Also moves the running statistics `running` towards the returned moments.
[[nodiscard]] ChannelMoments own_moments(const at::Tensor& x, double eps, const RunningMoments& running);
/// Merges the moments of all ranks, and moves the running statistics `running` towards the result. Rank r has counts[r]
/// values of a channel; a rank without values passes any finite moments. If all ranks together have fewer than two
/// values, `running` stays unchanged. A rank with fewer than two values, or with very many (`own_count`), merges by
/// other operators, so its result may differ from other ranks' results by rounding.
[[nodiscard]] ChannelMoments merge_moments(const ChannelMoments& all, const at::Tensor& counts, std::int64_t own_count,
                                           double eps, const RunningMoments& running);

}  // namespace mn
