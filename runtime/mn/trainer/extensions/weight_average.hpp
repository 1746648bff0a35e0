/// An exponential moving average of the weights, for evaluation and as the training's result.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// After each iteration average ← d · average + (1 − d) · weights, with d = min(decay, (1 + t) / (10 + t)) after t
/// updates, so that short trainings are averages, too (as in TensorFlow's ExponentialMovingAverage; Polyak and Juditsky
/// 1992). Averages only the parameters; the model keeps its buffers. Checkpoints hold the average beside the weights.
/// The average is equal on every rank. Local SGD is therefore excluded: its ranks have different weights. Cost: one
/// pass over the parameters in each iteration, and the memory of one copy. The copy of 16-bit parameters is in float32,
/// because in 16 bits an average of decay 0.999 would never change.
class WeightAverage final : public Extension {
 public:
  /// Throws UsageError unless 0 < decay < 1.
  explicit WeightAverage(double decay);
  /// Throws UsageError if the optimizer makes local steps.
  static void check_optimizer(bool makes_local_steps);

  [[nodiscard]] std::string name() const override { return kWeightAverage; }
  [[nodiscard]] int priority() const override { return kPriorityWriter + 2; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  [[nodiscard]] nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;
  [[nodiscard]] NamedTensors tensors() const override;
  [[nodiscard]] bool are_tensors_replicated() const override { return true; }
  void load_tensors(const NamedTensors& tensors) override { loaded_ = tensors; }

  /// Local. Swaps the model's parameters and the average. Allowed once training has begun.
  void swap();

 private:
  double decay_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;  // the model's floating-point parameters
  std::vector<at::Tensor> averages_;    // after swap() the weights
  std::vector<at::Tensor> unrounded_;   // after swap(): the averages of 16-bit parameters
  NamedTensors loaded_;
  std::int64_t updates_ = 0;
};

/// While an object of this class lives, the model's parameters hold the averaged weights.
class AveragedWeights {
 public:
  /// `average` must outlive this object.
  explicit AveragedWeights(WeightAverage& average) : average_(average) { average_.swap(); }
  ~AveragedWeights() { average_.swap(); }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  WeightAverage& average_;
};

/// Wraps `actual` to evaluate with the averaged weights; `average` must outlive the result.
[[nodiscard]] std::unique_ptr<Evaluator> create_averaged_evaluator(std::unique_ptr<Evaluator> actual,
                                                                   WeightAverage& average);

}  // namespace mn::extensions
