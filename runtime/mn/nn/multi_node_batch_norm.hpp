/// The function that normalizes over the minibatches of all ranks. MultiNodeBatchNorm and create_mnbn_model()'s models
/// call it.
#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/nn/batch_norm_kernels.hpp>

namespace mn {

/// Normalizes `input` (N, C, …) by the mean and variance of all ranks' values, and moves the running statistics
/// `running` towards them. If `weight` and `bias`, of shape (C), have values, then multiplies by `weight` and adds
/// `bias`. Forward and backward are collective. MultiNodeBatchNorm describes the weights of losses and the cost.
[[nodiscard]] at::Tensor multi_node_batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                                               const std::optional<at::Tensor>& bias, double eps,
                                               const RunningMoments& running,
                                               const std::shared_ptr<Communicator>& comm);

}  // namespace mn
