#include <cmath>

#include <mn/core/json.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

std::vector<double> factors_of(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  std::vector<double> factors;
  const double first = groups.front().options().get_lr();
  for (const auto& group : groups) factors.push_back(first == 0 ? 1 : group.options().get_lr() / first);
  return factors;
}

}  // namespace

void LearningRate::initialize(Trainer& trainer) {
  const std::int64_t steps = trainer.iterations_per_epoch();
  const auto& groups = trainer.optimizer().param_groups();
  if (factors_.size() != groups.size()) factors_ = factors_of(groups);
  // Iterations before the resume may have been of another size: the epochs say how far training has come.
  if (steps_per_epoch_ != 0 && steps_per_epoch_ != steps) {
    offset_ = std::llround(trainer.epoch_detail() * static_cast<double>(steps)) - trainer.iteration();
  }
  steps_per_epoch_ = steps;
  run(trainer);
}

void LearningRate::run(Trainer& trainer) {
  const double rate = schedule_(trainer.iteration() + offset_);
  auto& groups = trainer.optimizer().param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].options().set_lr(rate * (i < factors_.size() ? factors_[i] : 1));  // groups may have been added
  }
}

nlohmann::json LearningRate::state() const {
  return {{"steps_per_epoch", steps_per_epoch_}, {"offset", offset_}, {"factors", factors_}};
}

void LearningRate::load_state(const nlohmann::json& state) {
  if (!state.is_object()) return;
  steps_per_epoch_ = whole_number<std::int64_t>(state.at("steps_per_epoch"));
  offset_ = whole_number<std::int64_t>(state.at("offset"));
  factors_ = state.at("factors").get<std::vector<double>>();
}

}  // namespace mn::extensions
