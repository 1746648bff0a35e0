#include <mn/sharding/shard_pass.hpp>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/nn/recompute.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

namespace {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(bool has_unused)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({24})))),
        wide(register_module("wide", torch::nn::Linear(24, 49))),
        narrow(register_module("narrow", torch::nn::Linear(49, 24))) {
    if (has_unused) register_module("unused", torch::nn::Linear(7, 5));
  }
  at::Tensor forward(const at::Tensor& x) { return x + narrow(torch::gelu(wide(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear wide, narrow;
};
TORCH_MODULE(Block);

/// A language model in small: a tied embedding and some blocks.
struct Model : torch::nn::Module {
  explicit Model(bool has_unused) {
    table = register_module("table", torch::nn::Embedding(31, 24));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) blocks->push_back(Block(has_unused && i == 1));
  }
  at::Tensor forward(const at::Tensor& tokens, bool recompute) {
    at::Tensor x = table(tokens);
    for (const auto& module : *blocks) {
      const auto block = [module](const at::Tensor& in) { return module->as<BlockImpl>()->forward(in); };
      x = recompute ? mn::recompute_activations(block, x) : block(x);
    }
    return torch::nn::functional::cross_entropy(torch::linear(x, table->weight).flatten(0, 1), tokens.flatten());
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::ModuleList blocks{nullptr};
};

struct Case {
  bool recompute = false, unused = false;
  int accumulate = 1;
};

/// Trains some steps and returns the parameters.
std::vector<at::Tensor> train(mn::Shard what, const Case& how) {
  const std::shared_ptr<mn::Communicator> comm = mn::create_communicator("auto");
  torch::manual_seed(3);
  const auto model = std::make_shared<Model>(how.unused);
  mn::name_tensors(*model);
  mn::OptimizerOptions options;
  options.shard = {.what = what, .keep_gradients = true, .unit_bytes = 0};
  auto optimizer = mn::create_multi_node_optimizer(
      std::make_unique<mn::FusedAdamW>(model->parameters(), torch::optim::AdamWOptions(0.01)), comm, options);
  torch::manual_seed(100 + comm->rank());
  for (int step = 0; step < 4; ++step) {
    optimizer->zero_grad();
    for (int part = 1; part <= how.accumulate; ++part) {
      const auto token = part < how.accumulate ? optimizer->no_sync() : nullptr;
      const at::Tensor loss = model->forward(torch::randint(31, {2, 5}), how.recompute);
      const at::Tensor weighted = optimizer->scale_loss(loss, 10, how.accumulate);
      if (part == how.accumulate) optimizer->announce_step(10.0 * how.accumulate);
      weighted.backward();
    }
    optimizer->step(10.0 * how.accumulate);
  }
  std::vector<at::Tensor> result;
  const mn::WholeParameters whole(*model);
  for (const at::Tensor& parameter : model->parameters()) result.push_back(parameter.detach().clone());
  return result;
}

void expect_equal(const Case& how) {
  const std::vector<at::Tensor> plain = train(mn::Shard::kNone, how);
  for (const mn::Shard what : {mn::Shard::kOptimizer, mn::Shard::kGradients, mn::Shard::kParameters}) {
    const std::vector<at::Tensor> sharded = train(what, how);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(torch::equal(plain[i], sharded[i])) << "parameter " << i << " with shard " << static_cast<int>(what)
                                                      << ": " << (plain[i] - sharded[i]).abs().max().item<float>();
    }
  }
}

TEST(Sharding, EqualsPlainDataParallel) { expect_equal({}); }
TEST(Sharding, EqualsPlainWithUnusedParameters) { expect_equal({.unused = true}); }
TEST(Sharding, EqualsPlainWithRecomputation) { expect_equal({.recompute = true}); }
TEST(Sharding, EqualsPlainWithAccumulation) { expect_equal({.accumulate = 2}); }

}  // namespace
