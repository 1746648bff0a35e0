#include "imagenet/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <torch/optim/sgd.h>

#include <mn/train/lars.hpp>

#include "models/models.hpp"

namespace mn::jobs {
namespace {

constexpr double kLarsRate = 0.3;

/// Biases and the parameters of normalizations are not decayed.
std::vector<torch::optim::OptimizerParamGroup> parameter_groups(const torch::nn::Module& model,
                                                                const torch::optim::SGDOptions& options) {
  std::vector<at::Tensor> decayed, plain;
  for (const at::Tensor& parameter : model.parameters()) (parameter.dim() >= 2 ? decayed : plain).push_back(parameter);
  auto without_decay = std::make_unique<torch::optim::SGDOptions>(options);
  without_decay->weight_decay(0);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::move(decayed), std::make_unique<torch::optim::SGDOptions>(options));
  groups.emplace_back(std::move(plain), std::move(without_decay));
  return groups;
}

double base_rate(const ImagenetOptions& options) {
  if (options.lr > 0) return options.lr;
  return options.optimizer == "lars" ? kLarsRate : sgd_learning_rate(options.arch);
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const ImagenetOptions& options,
                                                        const torch::nn::Module& model) {
  const auto settings =
      torch::optim::SGDOptions(base_rate(options)).momentum(options.momentum).weight_decay(options.weight_decay);
  if (options.optimizer == "lars") return std::make_unique<Lars>(model.parameters(), settings);
  return std::make_unique<torch::optim::SGD>(parameter_groups(model, settings), settings);
}

Schedule make_schedule(const ImagenetOptions& options, int ranks, std::int64_t steps_per_epoch) {
  const double base = base_rate(options);
  const double rate = scale_learning_rate(base, options.batchsize * ranks);
  const std::int64_t total = options.epoch * steps_per_epoch;
  Schedule schedule = constant_schedule(rate);
  if (options.schedule == "step") schedule = step_schedule(rate, {total / 3, total * 2 / 3, total * 8 / 9});
  if (options.schedule == "cosine") schedule = cosine_schedule(rate, total);
  const auto rising = static_cast<std::int64_t>(std::llround(options.warmup * static_cast<double>(steps_per_epoch)));
  // LARS begins from a rate of 0: its rate for one small minibatch says little about the first steps.
  const double first = options.optimizer == "lars" ? 0 : std::min(base, rate);
  return warm_up(first, rising, std::move(schedule));
}

}  // namespace mn::jobs
