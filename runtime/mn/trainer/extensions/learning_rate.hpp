/// Learning-rate schedules during training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include <mn/optimizers/schedules.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// Sets the learning rate of every parameter group before the first iteration and after each iteration.
///
/// With one schedule, the first group gets the schedule's rate, and all groups keep the proportions of the rates that
/// the program gave them. A group with rate 0 stays frozen; the first group with another rate then counts as the first.
/// If all groups have rate 0, all get the schedule's rate. Groups that are added during training are treated alike.
///
/// If there is a list of schedules, group i gets the rate of schedule i, whatever rate the program gave the group (as
/// with PyTorch's LambdaLR):
///
///   const std::int64_t epoch = trainer.iterations_per_epoch();
///   trainer.extend(std::make_unique<mn::extensions::LearningRate>(std::vector<mn::Schedule>{
///       mn::cosine_schedule(0.1, 20 * epoch),  // the head
///       mn::starting_at(5 * epoch, mn::warm_up(0, epoch, mn::cosine_schedule(0.01, 15 * epoch)))}));  // the trunk
///
/// After a resume, the rates that the program gave its optimizer count, and not those in the checkpoint. A report after
/// an iteration still shows the rate that the iteration used. If the number of ranks or the batch size has changed, the
/// schedule continues from the same fraction of the same epoch.
class LearningRate final : public Extension {
 public:
  /// `schedule` must return the same rates on every rank. `optimizer` names one of the trainer's optimizers; if empty,
  /// the first optimizer is meant. Each optimizer may have a LearningRate of its own.
  explicit LearningRate(Schedule schedule, std::string optimizer = "")
      : schedules_{std::move(schedule)}, optimizer_(std::move(optimizer)) {}
  /// `schedules` has one schedule for each parameter group, in the order of the groups. If the optimizer has more or
  /// fewer groups, the first iteration throws ArgumentError.
  explicit LearningRate(std::vector<Schedule> schedules, std::string optimizer = "")
      : schedules_(std::move(schedules)), optimizer_(std::move(optimizer)), by_group_(true) {}

  [[nodiscard]] std::string name() const override {
    return optimizer_.empty() ? "LearningRate" : "LearningRate/" + optimizer_;
  }
  [[nodiscard]] int priority() const override { return kPriorityLast / 2; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  [[nodiscard]] nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& groups_of(const Trainer& trainer) const;
  void set_factors(const Trainer& trainer);
  [[nodiscard]] double first_rate(const Trainer& trainer) const;
  [[nodiscard]] double factor_of(const Trainer& trainer, std::size_t group) const;

  std::vector<Schedule> schedules_;  // with by_group_ one for each group, otherwise one for all groups
  std::string optimizer_;
  bool by_group_ = false;
  std::int64_t steps_per_epoch_ = 0;  // 0: not known
  std::int64_t offset_ = 0;           // the schedule's iteration minus the trainer's iteration
  std::vector<double> factors_;       // [groups] rate / base_
  double base_ = 0;                   // first_rate()
  bool resumed_ = false;              // factors_ and base_ come from the checkpoint
};

}  // namespace mn::extensions
