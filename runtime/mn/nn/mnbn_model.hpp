/// ChainerMN's create_mnbn_model: turns a model with libtorch's batch normalization into a model that normalizes over
/// the minibatches of all ranks.
#pragma once

#include <memory>

#include <torch/nn/modules/container/sequential.h>

#include <mn/comm/communicator.hpp>
#include <mn/nn/exported_module.hpp>

namespace mn {

/// Returns a model with a MultiNodeBatchNorm in place of each torch::nn::BatchNorm1d, 2d and 3d among the layers of
/// `model`. The new layers have copies of the old layers' values, on the same device, with the same dtype and mode. All
/// other layers are shared with `model`. Names of parameters and buffers do not change. Make the optimizer from the
/// returned model. Throws ArgumentError if a batch norm lies within a layer of a different kind: such a batch norm
/// cannot be replaced, because the layer's code calls the batch norm by its type. The call sends nothing to other
/// ranks.
[[nodiscard]] torch::nn::Sequential create_mnbn_model(const torch::nn::Sequential& model,
                                                      const std::shared_ptr<Communicator>& comm);

/// Returns `model`, which from now on normalizes over all ranks in training mode. From then on forward() in training
/// and its backward are collective; this call itself sends nothing. Throws ArgumentError if the model's file holds
/// batch norms as several simple operators (decomposed).
[[nodiscard]] std::shared_ptr<ExportedModule> create_mnbn_model(std::shared_ptr<ExportedModule> model,
                                                                std::shared_ptr<Communicator> comm);

}  // namespace mn
