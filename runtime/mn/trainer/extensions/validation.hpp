/// Evaluates the model during training, like Chainer's extensions.Evaluator.
#pragma once

#include <memory>
#include <string>

#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// Runs an Evaluator once an epoch by default, and at the end of training. Reports the metrics as
/// "validation/main/NAME". If the extension gets another name, this name takes the place of "validation". If a signal
/// or the time limit asks for the end of training, the validation ends between two minibatches, without a report. A
/// resumed training then begins with this validation.
class Validation final : public Extension {
 public:
  /// `evaluator` must return the same metrics on all ranks, as create_multi_node_evaluator() ensures. Throws
  /// ArgumentError if `evaluator` is null.
  explicit Validation(std::unique_ptr<Evaluator> evaluator, std::string name = "validation");

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityWriter; }
  [[nodiscard]] Duration duration() const override { return Duration::kInParts; }
  void run(Trainer& trainer) override;
  void at_end(Trainer& trainer) override { run(trainer); }
  /// Returns how many validations are complete.
  [[nodiscard]] std::int64_t runs() const noexcept { return runs_; }

 private:
  std::unique_ptr<Evaluator> evaluator_;
  std::string name_;
  std::int64_t runs_ = 0;
};

}  // namespace mn::extensions
