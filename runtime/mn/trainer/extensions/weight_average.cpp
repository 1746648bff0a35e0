#include <mn/trainer/extensions/weight_average.hpp>

#include <algorithm>
#include <cassert>
#include <set>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/optimizers/master_weights.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/sharding/sharded_parameters.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/extensions/allreduce_persistent.hpp>
#include <mn/trainer/running_statistics.hpp>
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
    average_.average_statistics();
    return actual_->evaluate_with(comm);
  }
  Metrics evaluate() override {
    const AveragedWeights averaged(average_);
    average_.average_statistics();
    return actual_->evaluate();
  }
  void set_pauses(std::function<void(bool)> pauses) override { actual_->set_pauses(std::move(pauses)); }

 private:
  std::unique_ptr<Evaluator> actual_;
  WeightAverage& average_;
};

/// The average of a 16-bit parameter is float32, because rounding to 16 bits would lose small changes.
at::ScalarType average_type(const at::Tensor& parameter) {
  return parameter.element_size() < 4 ? at::kFloat : parameter.scalar_type();
}

}  // namespace

WeightAverage::WeightAverage(double decay, std::shared_ptr<torch::nn::Module> module)
    : decay_(decay), module_(std::move(module)) {
  if (!(decay_ > 0 && decay_ < 1)) {
    throw UsageError("the decay of averaged weights must be above 0 and below 1, got " + std::to_string(decay_));
  }
}

void WeightAverage::check_optimizer(bool makes_local_steps) {
  if (!makes_local_steps) return;
  throw UsageError(
      "averaged weights (--ema) and local steps (--local-steps) exclude each other: each rank has weights of its own");
}

/// Returns the tensors to average, by their names in the trainer's model: the floating-point parameters of the averaged
/// module, each once, and after them its running statistics.
NamedTensors WeightAverage::find_tensors(const torch::nn::Module& model) {
  const torch::nn::Module& module = module_ ? std::as_const(*module_) : model;
  std::set<const c10::TensorImpl*> wanted;  // each tensor once, because tied weights have several names
  for (const at::Tensor& each : parameters_of(module)) wanted.insert(each.unsafeGetTensorImpl());
  for (const auto& [name, buffer] : running_statistics(module)) wanted.insert(buffer.unsafeGetTensorImpl());
  const auto take = [&](NamedTensors tensors) {
    std::erase_if(tensors, [&](const auto& named) { return wanted.erase(named.second.unsafeGetTensorImpl()) == 0; });
    std::erase_if(tensors, [](const auto& named) { return !named.second.is_floating_point(); });
    return tensors;
  };
  NamedTensors tensors = take(named_parameters(model));
  statistics_ = tensors.size();
  for (auto& statistic : take(running_statistics(model))) tensors.push_back(std::move(statistic));
  if (!wanted.empty()) throw ArgumentError("a WeightAverage is of a module that is no part of the trainer's model");
  return tensors;
}

void WeightAverage::initialize(Trainer& trainer) {
  for (const auto& [name, optimizer] : trainer.optimizers()) check_optimizer(optimizer->local());
  if (!parameters_.empty() && loaded_.empty()) return;  // at a second run of the same trainer, the average goes on
  trainer_ = &trainer;
  names_.clear();
  parameters_.clear();
  averages_.clear();
  shards_.clear();
  for (const auto& [name, whole] : find_tensors(trainer.model())) {
    const auto piece = find_piece(whole);
    const at::Tensor tensor = piece ? piece->elements : whole;
    names_.push_back(name);
    parameters_.push_back(tensor);
    ShardedParameters* const owner = piece ? piece->owner : nullptr;  // null for experts
    if (owner != nullptr && std::ranges::find(shards_, owner) == shards_.end()) shards_.push_back(owner);
    const auto found = loaded_.find(name);
    // Without an average of this shape in the checkpoint, the average begins with the present value.
    const bool fits = found != loaded_.end() && found->second.sizes() == tensor.sizes();
    const at::Tensor& first = fits ? std::as_const(found->second) : tensor;
    averages_.push_back(first.detach().to(tensor.device(), average_type(tensor), false, /*copy=*/true));
  }
  unrounded_.assign(averages_.size(), {});
  loaded_.clear();
}

void WeightAverage::run(Trainer& trainer) {
  const at::NoGradGuard no_grad;
  const auto t = static_cast<double>(++updates_);
  // The decay begins small. With the full decay, the initial weights would count as much as 1 / (1 − decay) steps.
  const double decay = std::min(decay_, (1 + t) / (10 + t));
  std::vector<at::Tensor> weights = parameters_;
  for (at::Tensor& each : weights) {
    for (const auto& [name, optimizer] : trainer.optimizers()) each = exact_weight(optimizer->actual(), each);
    each = each.to(average_type(each));
  }
  at::_foreach_lerp_(averages_, weights, 1 - decay);
}

nlohmann::json WeightAverage::state() const { return updates_; }

void WeightAverage::load_state(const nlohmann::json& state) {
  if (state.is_number()) updates_ = whole_number<std::int64_t>(state);
}

NamedTensors WeightAverage::tensors() const {
  NamedTensors all;
  for (std::size_t i = 0; i < statistics_; ++i) all.emplace_back(names_[i], averages_[i]);
  return all;
}

NamedTensors WeightAverage::rank_tensors() const {
  NamedTensors all;
  for (std::size_t i = statistics_; i < names_.size(); ++i) all.emplace_back(names_[i], averages_[i]);
  return all;
}

void WeightAverage::map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& /*comm*/) {
  load_rank_tensors(saved.front());
}

void WeightAverage::average_kept_statistics(Trainer& trainer) {
  if (statistics_ == names_.size()) return;
  std::vector<AveragedBuffer> kept = averaged_buffers(module_ ? *module_ : trainer.model());
  for (AveragedBuffer& each : kept) {
    const auto is_same = [&](const at::Tensor& statistic) { return statistic.is_same(each.buffer); };
    each.buffer = averages_[std::ranges::find_if(parameters_, is_same) - parameters_.begin()];
  }
  average_over_ranks(kept, trainer.communicator());
}

void WeightAverage::average_statistics() const {
  if (trainer_ == nullptr) return;
  average_buffers(module_ ? *module_ : trainer_->model(), trainer_->communicator());
}

void WeightAverage::swap() {
  assert(parameters_.size() == averages_.size());
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor weights = parameters_[i].detach().clone();
    // The average is copied, because the optimizer and the buffer of gradients refer to the parameter's memory.
    parameters_[i].detach().copy_(averages_[i]);
    if (averages_[i].scalar_type() == weights.scalar_type() && !unrounded_[i].defined()) {
      averages_[i].copy_(weights);
    } else if (unrounded_[i].defined()) {
      averages_[i] = std::exchange(unrounded_[i], {});
    } else {
      unrounded_[i] = std::exchange(averages_[i], weights);
    }
  }
  for (ShardedParameters* const shards : shards_) shards->publish();
}

std::unique_ptr<Evaluator> create_averaged_evaluator(std::unique_ptr<Evaluator> actual, WeightAverage& average) {
  return std::make_unique<AveragedEvaluator>(std::move(actual), average);
}

}  // namespace mn::extensions
