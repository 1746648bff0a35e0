/// The function that normalizes over the minibatches of all ranks. MultiNodeBatchNorm and create_mnbn_model()'s models
/// call it.
#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// A normalized minibatch of this rank. The moments of all ranks' values for each channel have no gradients.
struct BatchMoments {
  at::Tensor output;    ///< (N, C, …)
  at::Tensor mean;      ///< (C)
  at::Tensor variance;  ///< (C), unbiased: for running statistics
};

/// Normalizes `input` (N, C, …) by the mean and variance of all ranks' values. If `weight` and `bias` (C) have values,
/// then multiplies by `weight` and adds `bias`. Forward and backward are collective. MultiNodeBatchNorm describes the
/// weights of losses and the cost.
[[nodiscard]] BatchMoments multi_node_batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                                                 const std::optional<at::Tensor>& bias, double eps,
                                                 const std::shared_ptr<Communicator>& comm);

}  // namespace mn
