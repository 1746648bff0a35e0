#include <mn/trainer/extensions/weight_average.hpp>

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

class AveragedEvaluator final : public Evaluator {
 public:
  AveragedEvaluator(std::unique_ptr<Evaluator> actual, WeightAverage& average)
      : actual_(std::move(actual)), average_(average) {}
  Summary evaluate_local() override {
    const AveragedWeights averaged(average_);
    return actual_->evaluate_local();
  }
  Summary evaluate_with(Communicator& comm) override {
    const AveragedWeights averaged(average_);
    return actual_->evaluate_with(comm);
  }
  Metrics evaluate() override {
    const AveragedWeights averaged(average_);
    return actual_->evaluate();
  }
  void set_pauses(std::function<void(bool)> pauses) override { actual_->set_pauses(std::move(pauses)); }

 private:
  std::unique_ptr<Evaluator> actual_;
  WeightAverage& average_;
};

/// The dtype of a parameter's average: float32 for 16-bit parameters, because 16 bits cannot hold a weight plus a small
/// part of its change.
at::ScalarType average_type(const at::Tensor& parameter) {
  return parameter.element_size() < 4 ? at::kFloat : parameter.scalar_type();
}

}  // namespace

WeightAverage::WeightAverage(double decay) : decay_(decay) {
  if (!(decay_ > 0 && decay_ < 1)) {
    throw UsageError("the decay of averaged weights must be above 0 and below 1, got " + std::to_string(decay_));
  }
}

void WeightAverage::check_optimizer(bool makes_local_steps) {
  if (!makes_local_steps) return;
  throw UsageError(
      "averaged weights (--ema) and local steps (--local-steps) exclude each other: each rank has weights of its own");
}

void WeightAverage::initialize(Trainer& trainer) {
  for (const auto& [name, optimizer] : trainer.optimizers()) check_optimizer(optimizer->local());
  if (!parameters_.empty() && loaded_.empty()) return;  // a second run of the same trainer continues the average
  names_.clear();
  parameters_.clear();
  averages_.clear();
  const std::map<std::string, at::Tensor> loaded(loaded_.begin(), loaded_.end());
  std::set<const c10::TensorImpl*> seen;  // tied weights have several names
  for (const auto& [name, parameter] : named_parameters(trainer.model())) {
    if (!parameter.is_floating_point() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    names_.push_back(name);
    parameters_.push_back(parameter);
    const auto found = loaded.find(name);
    // The average of a parameter without a fitting value in the checkpoint begins with the parameter's value.
    const bool fits = found != loaded.end() && found->second.sizes() == parameter.sizes();
    const at::Tensor& first = fits ? found->second : parameter;
    averages_.push_back(first.detach().to(parameter.device(), average_type(parameter), false, /*copy=*/true));
  }
  unrounded_.assign(averages_.size(), {});
  loaded_.clear();
}

void WeightAverage::run(Trainer&) {
  const at::NoGradGuard no_grad;
  const auto t = static_cast<double>(++updates_);
  // The first steps have a smaller decay; otherwise the initial weights would count for 1 / (1 − decay) steps.
  const double decay = std::min(decay_, (1 + t) / (10 + t));
  std::vector<at::Tensor> weights = parameters_;
  for (at::Tensor& each : weights) each = each.to(average_type(each));
  at::_foreach_lerp_(averages_, weights, 1 - decay);
}

nlohmann::json WeightAverage::state() const { return updates_; }

void WeightAverage::load_state(const nlohmann::json& state) {
  if (state.is_number()) updates_ = whole_number<std::int64_t>(state);
}

NamedTensors WeightAverage::tensors() const {
  NamedTensors all;
  for (std::size_t i = 0; i < names_.size(); ++i) all.emplace_back(names_[i], averages_[i]);
  return all;
}

void WeightAverage::swap() {
  assert(parameters_.size() == averages_.size());
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor weights = parameters_[i].detach().clone();
    // In place, because the optimizer and the gradient buffer hold the parameters' memory.
    parameters_[i].detach().copy_(averages_[i]);
    if (averages_[i].scalar_type() == weights.scalar_type() && !unrounded_[i].defined()) {
      averages_[i].copy_(weights);
    } else if (unrounded_[i].defined()) {
      averages_[i] = std::exchange(unrounded_[i], {});
    } else {
      unrounded_[i] = std::exchange(averages_[i], weights);
    }
  }
}

std::unique_ptr<Evaluator> create_averaged_evaluator(std::unique_ptr<Evaluator> actual, WeightAverage& average) {
  return std::make_unique<AveragedEvaluator>(std::move(actual), average);
}

}  // namespace mn::extensions
