/// Evaluation during training: Chainer's extensions.Evaluator.
#pragma once

#include <memory>
#include <string>

#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// Runs an Evaluator once an epoch, unless another trigger is given, and at the end of training. Reports its metrics as
/// "validation/main/NAME"; another name of the extension replaces "validation". Where a signal or the time limit asks
/// for the end, it ends between two minibatches, without a report; a training that resumes validates first.
class Validation final : public Extension {
 public:
  /// `evaluator` is one that create_multi_node_evaluator() made: all ranks must get the same metrics. Throws
  /// ArgumentError if it is null.
  explicit Validation(std::unique_ptr<Evaluator> evaluator, std::string name = "validation");

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityWriter; }
  [[nodiscard]] Duration duration() const override { return Duration::kInParts; }
  void run(Trainer& trainer) override;
  void at_end(Trainer& trainer) override { run(trainer); }
  /// How often it has run.
  [[nodiscard]] std::int64_t runs() const noexcept { return runs_; }

 private:
  std::unique_ptr<Evaluator> evaluator_;
  std::string name_;
  std::int64_t runs_ = 0;
};

}  // namespace mn::extensions
