#include <mn/train/extensions/learning_rate.hpp>
#include <mn/train/trainer.hpp>

namespace mn::extensions {

void LearningRate::run(Trainer& trainer) {
  const double rate = schedule_(trainer.iteration());
  for (auto& group : trainer.optimizer().param_groups()) group.options().set_lr(rate);
}

}  // namespace mn::extensions
