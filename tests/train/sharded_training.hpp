// Trainings that shard what the ranks hold in each way, for tests that compare the ways.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <torch/torch.h>

#include <mn/nn/recompute.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/lamb.hpp>
#include <mn/optimizers/lars.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn::sharded {

struct Case {
  enum class Optimizer { kAdam, kSgd, kLamb, kLars };
  bool recompute = false, unused = false, twice = false, freezes = false, scaler = false, two = false,
       alternates = false, evaluates = false;  // alternates: the second of two optimizers steps first in odd steps
  bool uneven = false, uneven_later = false, absent = false, differs = false, schedule = false, keep_gradients = true,
       weighs = true;
  int accumulate = 1;
  double clip_norm = 0, clip_value = 0;
  Optimizer optimizer = Optimizer::kAdam;
  std::optional<c10::ScalarType> autocast = std::nullopt;
  bool attends = false;
};

struct BlockImpl : torch::nn::Module {
  BlockImpl(bool has_unused, bool attends)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({24})))),
        wide(register_module("wide", torch::nn::Linear(24, 49))),
        narrow(register_module("narrow", torch::nn::Linear(49, 24))) {
    if (has_unused) register_module("unused", torch::nn::Linear(7, 5));
    if (attends) heads = register_module("heads", torch::nn::Linear(24, 3 * 24));
  }
  at::Tensor forward(at::Tensor x) {
    if (heads) {
      const auto parts = heads(norm(x)).chunk(3, -1);
      x = x + at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    }
    return x + narrow(torch::gelu(wide(norm(x))));
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear wide, narrow, heads{nullptr};
};
TORCH_MODULE(Block);

/// A language model in small: a tied embedding and some blocks.
struct Model : torch::nn::Module {
  Model(const Case& how, int rank) : how_(how), rank_(static_cast<std::size_t>(rank)) {
    table = register_module("table", torch::nn::Embedding(31, 24));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) blocks->push_back(Block(how.unused && i == 1, how.attends));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = table(tokens);
    for (std::size_t i = 0; i < blocks->size(); ++i) {
      if (how_.differs && i == rank_ % 3) continue;
      const auto block = [module = blocks->ptr<BlockImpl>(i)](const at::Tensor& in) { return module->forward(in); };
      for (int use = 0; use < (how_.twice && i == 1 ? 2 : 1); ++use) {
        x = how_.recompute ? recompute_activations(block, x) : block(x);
      }
    }
    const at::Tensor scores = torch::linear(x, table->weight).flatten(0, 1).to(at::kFloat);
    return torch::nn::functional::cross_entropy(scores, tokens.flatten());
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::ModuleList blocks{nullptr};

 private:
  Case how_;
  std::size_t rank_;
};

/// One training of a case.
class Training {
 public:
  Training(Shard what, const Case& how, std::shared_ptr<Communicator> comm) : how_(how), comm_(std::move(comm)) {
    torch::manual_seed(3);
    model_ = std::make_shared<Model>(how, comm_->rank());
    name_tensors(*model_);
    if (how.freezes) model_->table->weight.requires_grad_(false);
    options_.shard = {.what = what, .keep_gradients = how.keep_gradients, .unit_bytes = 0};
    if (how.scaler) options_.grad_scaler = GradScalerOptions{.growth_interval = 2};
    const std::vector<at::Tensor> all = model_->parameters();
    const auto middle = all.begin() + (how.two ? 5 : static_cast<std::ptrdiff_t>(all.size()));
    add_optimizer({all.begin(), middle});
    if (how.two) add_optimizer({middle, all.end()});
    torch::manual_seed(100 + comm_->rank());
  }

  /// Trains some steps and returns the losses of evaluations, and the parameters.
  std::vector<at::Tensor> run() {
    for (int step = 0; step < 4; ++step) {
      if (how_.freezes && step % 2 == 1) freeze(step);
      if (how_.schedule) optimizers_[0]->param_groups()[0].options().set_lr(0.01 / (step + 1));
      update(step);
      if (how_.evaluates) evaluate();
    }
    const WholeParameters whole(*model_);
    for (const at::Tensor& parameter : model_->parameters()) results_.push_back(parameter.detach().clone());
    return results_;
  }
  [[nodiscard]] Model& model() { return *model_; }
  [[nodiscard]] MultiNodeOptimizer& optimizer() { return *optimizers_.front(); }

 private:
  void add_optimizer(const std::vector<at::Tensor>& parameters) {
    optimizers_.push_back(create_multi_node_optimizer(torch_optimizer(parameters), comm_, options_));
    if (how_.clip_norm > 0) optimizers_.back()->add_hook("norm", gradient_clipping(how_.clip_norm));
    if (how_.clip_value == 0) return;
    optimizers_.back()->add_hook("value", [this](const std::vector<at::Tensor>& clipped) {
      const at::NoGradGuard no_grad;
      for (const at::Tensor& each : clipped) {
        if (each.grad().defined()) each.mutable_grad().clamp_(-how_.clip_value, how_.clip_value);
      }
    });
  }
  [[nodiscard]] std::unique_ptr<torch::optim::Optimizer> torch_optimizer(const std::vector<at::Tensor>& all) const {
    const auto adam = torch::optim::AdamWOptions(0.01).weight_decay(0.1);
    const auto sgd = torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01);
    if (how_.optimizer == Case::Optimizer::kSgd) return std::make_unique<torch::optim::SGD>(all, sgd);
    if (how_.optimizer == Case::Optimizer::kLamb) return std::make_unique<Lamb>(all, adam);
    if (how_.optimizer == Case::Optimizer::kLars) return std::make_unique<Lars>(all, sgd, 0.1);
    return std::make_unique<FusedAdamW>(all, adam);
  }

  /// The table is frozen at the start, and a layer between steps 1 and 3.
  void freeze(int step) {
    model_->table->weight.requires_grad_(step == 1);
    model_->blocks->ptr<BlockImpl>(1)->wide->weight.requires_grad_(step == 3);
  }

  void update(int step) {
    for (const auto& each : optimizers_) each->zero_grad();
    double samples = 0;
    for (int part = 1; part <= how_.accumulate; ++part) samples += backward(step, part);
    std::vector<std::shared_ptr<MultiNodeOptimizer>> order = optimizers_;
    if (how_.alternates && step % 2 == 1) std::swap(order.front(), order.back());
    for (const auto& each : order) how_.weighs ? each->step(samples) : each->step();
  }
  /// Returns the number of samples.
  double backward(int step, int part) {
    if (how_.absent && step % 2 == 0 && comm_->rank() == comm_->size() - 1) return 0;
    std::vector<std::shared_ptr<void>> tokens;
    for (const auto& each : optimizers_) {
      if (part < how_.accumulate) tokens.push_back(each->no_sync());
    }
    std::int64_t rows = how_.uneven ? 1 + comm_->rank() : 2;
    if (how_.uneven_later && step > 0) rows = comm_->rank() == 0 ? 1 : 3;  // the mean weight of 3 ranks is rounded
    at::Tensor loss = forward(torch::randint(31, {rows, 5}));
    if (how_.scaler && step == 1 && comm_->rank() == comm_->size() - 1) {  // a gradient that lies on one rank overflows
      loss = loss + model_->blocks->ptr<BlockImpl>(0)->norm->bias.sum() * std::numeric_limits<float>::infinity();
    }
    const auto samples = static_cast<double>(5 * rows);
    MultiNodeOptimizer& first = *optimizers_.front();
    const at::Tensor weighted = how_.weighs ? first.scale_loss(loss, samples, how_.accumulate) : first.scale_loss(loss);
    for (const auto& each : optimizers_) {
      if (how_.weighs && part == how_.accumulate) each->announce_step(samples * how_.accumulate);
    }
    weighted.backward();
    return samples;
  }
  at::Tensor forward(const at::Tensor& tokens) {
    const AutocastScope autocast(how_.autocast, comm_->device());
    return model_->forward(tokens);
  }
  void evaluate() {
    const ShardPass pass(*model_);
    const at::NoGradGuard no_grad;
    for (int i = 0; i < 2; ++i) results_.push_back(forward(torch::arange(20).reshape({4, 5})));
  }

  Case how_;
  std::shared_ptr<Communicator> comm_;
  std::shared_ptr<Model> model_;
  OptimizerOptions options_;
  std::vector<std::shared_ptr<MultiNodeOptimizer>> optimizers_;
  std::vector<at::Tensor> results_;
};

}  // namespace mn::sharded
