/// Models whose batch normalization is over all ranks' minibatches, made of models with libtorch's: ChainerMN's
/// create_mnbn_model.
#pragma once

#include <memory>

#include <torch/nn/modules/container/sequential.h>

#include <mn/comm/communicator.hpp>
#include <mn/nn/exported_module.hpp>

namespace mn {

/// A model with a MultiNodeBatchNorm in place of each torch::nn::BatchNorm1d, 2d and 3d among the layers of `model`,
/// with the values, device, dtype and mode of theirs. The other layers are the same objects, shared with `model`. Names
/// of parameters and buffers stay as they are. Make the optimizer of the result. Throws ArgumentError for a layer that
/// holds batch normalization within: its code calls it by its type. Local.
[[nodiscard]] torch::nn::Sequential create_mnbn_model(const torch::nn::Sequential& model,
                                                      const std::shared_ptr<Communicator>& comm);

/// The same model, which from now on normalizes over all ranks in training mode: its forward() and backward are
/// collective then. Throws ArgumentError if its file holds batch normalization in a decomposed form. Local.
[[nodiscard]] std::shared_ptr<ExportedModule> create_mnbn_model(std::shared_ptr<ExportedModule> model,
                                                                std::shared_ptr<Communicator> comm);

}  // namespace mn
