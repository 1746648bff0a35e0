#include <mn/trainer/extensions/learning_rate.hpp>

#include <cmath>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

std::vector<torch::optim::OptimizerParamGroup>& LearningRate::groups_of(const Trainer& trainer) const {
  return (optimizer_.empty() ? trainer.optimizer() : trainer.optimizer(optimizer_)).param_groups();
}

/// The rate of the first group that is not frozen, that is, whose rate is not 0. 0 if all groups are frozen.
double LearningRate::first_rate(const Trainer& trainer) const {
  const auto& groups = groups_of(trainer);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double rate = resumed_ ? trainer.initial_rate(i, optimizer_).value_or(0) : groups[i].options().get_lr();
    if (rate != 0) return rate;
  }
  return 0;
}

/// After a resume, the rates that the program gave count, because the checkpoint's rates may all be 0.
double LearningRate::factor_of(const Trainer& trainer, std::size_t group) const {
  if (resumed_) {
    const auto own = trainer.initial_rate(group, optimizer_);
    if (own && base_ != 0) return *own / base_;
    if (group < factors_.size()) return factors_[group];
  }
  const double rate = groups_of(trainer)[group].options().get_lr();
  return base_ == 0 ? 1 : rate / base_;
}

void LearningRate::set_factors(const Trainer& trainer) {
  if (!resumed_ || trainer.initial_rate(0, optimizer_)) base_ = first_rate(trainer);
  std::vector<double> factors;
  for (std::size_t i = 0; i < groups_of(trainer).size(); ++i) factors.push_back(factor_of(trainer, i));
  factors_ = std::move(factors);
  resumed_ = false;
}

void LearningRate::initialize(Trainer& trainer) {
  const std::int64_t steps = trainer.iterations_per_epoch();
  if (!by_group_ && (resumed_ || factors_.empty())) set_factors(trainer);
  // If iterations had more or fewer samples before the resume, the schedule continues from the same number of epochs.
  if (steps_per_epoch_ != 0 && steps_per_epoch_ != steps) {
    offset_ = std::llround(trainer.epoch_detail() * static_cast<double>(steps)) - trainer.iteration();
  }
  steps_per_epoch_ = steps;
  if (!trainer.is_pending(*this)) run(trainer);  // otherwise a pending report must first see the old rate
}

void LearningRate::run(Trainer& trainer) {
  const std::int64_t iteration = trainer.iteration() + offset_;
  auto& groups = groups_of(trainer);
  if (by_group_) {
    if (schedules_.size() != groups.size()) {
      throw ArgumentError("LearningRate has " + std::to_string(schedules_.size()) +
                          " schedules, but the optimizer has " + std::to_string(groups.size()) +
                          " groups of parameters: give a schedule for each group");
    }
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(schedules_[i](iteration));
    return;
  }
  const double rate = schedules_.front()(iteration);
  while (factors_.size() < groups.size()) factors_.push_back(factor_of(trainer, factors_.size()));  // for new groups
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rate * factors_[i]);
}

nlohmann::json LearningRate::state() const {
  return {{"steps_per_epoch", steps_per_epoch_}, {"offset", offset_}, {"factors", factors_}, {"base", base_}};
}

void LearningRate::load_state(const nlohmann::json& state) {
  if (!state.is_object()) return;
  steps_per_epoch_ = whole_number<std::int64_t>(state.at("steps_per_epoch"));
  offset_ = whole_number<std::int64_t>(state.at("offset"));
  factors_ = state.at("factors").get<std::vector<double>>();
  base_ = state.value("base", 0.0);
  resumed_ = true;
}

}  // namespace mn::extensions
