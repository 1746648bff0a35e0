/// Batch normalization over the minibatches of all ranks, as a function. MultiNodeBatchNorm and create_mnbn_model()
/// call it.
#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// A normalized minibatch, and the moments of all ranks' values by channel, without gradients.
struct BatchMoments {
  at::Tensor output;    ///< (N, C, …)
  at::Tensor mean;      ///< (C)
  at::Tensor variance;  ///< (C), unbiased: for running statistics
};

/// Normalizes `input` (N, C, …) by mean and variance of all ranks' values, then scales by `weight` and adds `bias` (C),
/// if they have values. Forward and backward are collective; see MultiNodeBatchNorm for weights of losses and for the
/// cost.
[[nodiscard]] BatchMoments multi_node_batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                                                 const std::optional<at::Tensor>& bias, double eps,
                                                 const std::shared_ptr<Communicator>& comm);

}  // namespace mn
