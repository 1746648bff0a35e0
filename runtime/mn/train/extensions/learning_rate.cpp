#include <cmath>

#include <mn/core/json.hpp>
#include <mn/train/extensions/learning_rate.hpp>
#include <mn/train/trainer.hpp>

namespace mn::extensions {

void LearningRate::initialize(Trainer& trainer) {
  const std::int64_t steps = trainer.iterator().steps_per_epoch();
  // Iterations before the resume may have been of another size: the epochs say how far training has come.
  if (steps_per_epoch_ != 0 && steps_per_epoch_ != steps) {
    offset_ = std::llround(trainer.epoch_detail() * static_cast<double>(steps)) - trainer.iteration();
  }
  steps_per_epoch_ = steps;
  run(trainer);
}

void LearningRate::run(Trainer& trainer) {
  const double rate = schedule_(trainer.iteration() + offset_);
  for (auto& group : trainer.optimizer().param_groups()) group.options().set_lr(rate);
}

nlohmann::json LearningRate::state() const { return {{"steps_per_epoch", steps_per_epoch_}, {"offset", offset_}}; }

void LearningRate::load_state(const nlohmann::json& state) {
  if (!state.is_object()) return;
  steps_per_epoch_ = state.at("steps_per_epoch");
  offset_ = state.at("offset");
}

}  // namespace mn::extensions
