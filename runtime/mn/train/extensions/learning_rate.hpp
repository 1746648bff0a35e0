/// Learning-rate schedules during training.
#pragma once

#include <mn/train/extension.hpp>
#include <mn/train/schedules.hpp>

namespace mn::extensions {

/// Sets the rate of every parameter group before the first iteration and after each. A report of the same iteration
/// still has the rate that the iteration used.
class LearningRate final : public Extension {
 public:
  explicit LearningRate(Schedule schedule) : schedule_(std::move(schedule)) {}

  [[nodiscard]] std::string name() const override { return "LearningRate"; }
  [[nodiscard]] int priority() const override { return kPriorityLast / 2; }
  void initialize(Trainer& trainer) override { run(trainer); }
  void run(Trainer& trainer) override;

 private:
  Schedule schedule_;
};

}  // namespace mn::extensions
