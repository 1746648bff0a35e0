/// Evaluation during training.
#pragma once

#include <memory>

#include <mn/train/evaluator.hpp>
#include <mn/train/extension.hpp>

namespace mn::extensions {

/// Runs a multi-node evaluator, once an epoch unless another trigger is given, and reports its metrics under
/// "validation/main/"; another name gives another prefix.
class Evaluator final : public Extension {
 public:
  /// From create_multi_node_evaluator: all ranks must get the same metrics.
  explicit Evaluator(std::unique_ptr<mn::Evaluator> evaluator, std::string name = "validation");

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityWriter; }
  void run(Trainer& trainer) override;

 private:
  std::unique_ptr<mn::Evaluator> evaluator_;
  std::string name_;
};

}  // namespace mn::extensions
