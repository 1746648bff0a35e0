// A small network whose optimizer shards it: trained, its parameters tell whether another way is equal.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/master_weights.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn::test {

/// An embedding, whose table is also the last layer, and residual blocks of uneven sizes.
struct ShardedNet : torch::nn::Module {
  ShardedNet() {
    table = register_module("table", torch::nn::Embedding(31, 24));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) {
      blocks->push_back(torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({24})),
                                              torch::nn::Linear(24, 49), torch::nn::GELU(), torch::nn::Linear(49, 24)));
    }
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = table(tokens);
    for (const auto& block : *blocks) x = x + block->as<torch::nn::SequentialImpl>()->forward(x);
    const at::Tensor scores = torch::linear(x, table->weight).flatten(0, 1).to(at::kFloat);
    return torch::nn::functional::cross_entropy(scores, tokens.flatten());
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::ModuleList blocks{nullptr};
};

struct ShardedTraining {
  ShardOptions shard = {};
  bool narrow = false;     ///< 16-bit weights with float32 masters
  bool autocast = false;   ///< 16-bit operators
  int backwards = 1;       ///< in each step
  std::int64_t check = 0;  ///< OptimizerOptions::check_parameters
  int steps = 4;
  bool announces = true;  ///< announce_step()
  /// Adds to the loss.
  std::function<at::Tensor(ShardedNet&)> extra = {};
  /// Looks at the training at its end.
  std::function<void(MultiNodeOptimizer&, ShardedNet&)> look = {};
};

/// Trains and returns the parameters, on the CPU.
inline std::vector<at::Tensor> train(const ShardedTraining& how, const std::shared_ptr<Communicator>& comm) {
  torch::manual_seed(3);
  const auto net = std::make_shared<ShardedNet>();
  net->to(c10::Device(comm->device()));
  name_tensors(*net);
  if (how.narrow) narrow_weights(*net, at::kBFloat16);
  auto adam = std::make_unique<FusedAdamW>(net->parameters(), torch::optim::AdamWOptions(0.01));
  if (how.narrow) adam->keep_masters();
  const auto optimizer =
      create_multi_node_optimizer(std::move(adam), comm, {.shard = how.shard, .check_parameters = how.check});
  torch::manual_seed(100 + comm->rank());
  for (int step = 0; step < how.steps; ++step) {
    optimizer->zero_grad();
    for (int part = 1; part <= how.backwards; ++part) {
      const auto token = part < how.backwards ? optimizer->no_sync() : nullptr;
      const at::Tensor tokens = torch::randint(31, {2, 5}).to(c10::Device(comm->device()));
      at::Tensor loss;
      {
        const AutocastScope scope(how.narrow || how.autocast ? std::optional(at::kBFloat16) : std::nullopt,
                                  comm->device());
        loss = net->forward(tokens);
        if (how.extra) loss = loss + how.extra(*net);
      }
      const at::Tensor weighted = optimizer->scale_loss(loss, 10, how.backwards);
      if (part == how.backwards && how.announces) optimizer->announce_step(10.0 * how.backwards);
      weighted.backward();
    }
    optimizer->step(10.0 * how.backwards);
  }
  if (how.look) how.look(*optimizer, *net);
  std::vector<at::Tensor> result;
  const WholeParameters whole(*net);
  for (const at::Tensor& parameter : net->parameters()) result.push_back(parameter.detach().cpu().clone());
  return result;
}

inline constexpr Shard kAllShards[] = {Shard::kOptimizer, Shard::kGradients, Shard::kParameters};

}  // namespace mn::test
