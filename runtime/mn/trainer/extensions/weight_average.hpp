/// Keeps an exponential moving average of the weights, for evaluation and as the result of the training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// After each iteration average ← d · average + (1 − d) · weights, with d = min(decay, (1 + t) / (10 + t)) after t
/// updates, so that the initial weights count little in short trainings, too (as in TensorFlow's
/// ExponentialMovingAverage; Polyak and Juditsky 1992). The running statistics of normalization layers are averaged in
/// the same way, because statistics belong to weights; no other buffers are averaged. Checkpoints hold the average
/// beside the weights. Averaged weights are equal on every rank. Local SGD is therefore excluded: its ranks have
/// different weights. Averaged statistics become equal on every rank when they are evaluated, and when
/// AllreducePersistent runs. Cost: one pass over the parameters in each iteration, and the memory of one copy. The copy
/// of 16-bit parameters is in float32, because in 16 bits an average of decay 0.999 would never change; it averages
/// their float32 masters, if an optimizer keeps masters (master_weights.hpp).
class WeightAverage final : public Extension {
 public:
  /// Averages the trainer's model, or only `module`, a part of it, such as a GAN's generator. If a trainer has several
  /// averages, give each its own name (ExtendOptions::name). Throws UsageError unless 0 < decay < 1.
  explicit WeightAverage(double decay, std::shared_ptr<torch::nn::Module> module = nullptr);
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
  void load_tensors(const NamedTensors& tensors) override { loaded_ = {tensors.begin(), tensors.end()}; }
  /// Returns the averages of running statistics, which differ from rank to rank.
  [[nodiscard]] NamedTensors rank_tensors() const override;
  void load_rank_tensors(const NamedTensors& tensors) override { loaded_.insert(tensors.begin(), tensors.end()); }
  /// On all ranks, takes rank 0's averages of running statistics, just as a resume takes rank 0's buffers.
  void map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& comm) override;
  /// Makes the averages of running statistics equal on all ranks, because load_model() takes rank 0's.
  void average_kept_statistics(Trainer& trainer) override;

  /// Local. Exchanges the model's weights and statistics for their averages, or the averages for the weights. Call it
  /// only after training has begun.
  void swap();
  /// Collective: averages the running statistics over ranks, by average_buffers(). Call it while the model has the
  /// averages.
  void average_statistics() const;

 private:
  [[nodiscard]] NamedTensors find_tensors(const torch::nn::Module& model);

  double decay_;
  std::shared_ptr<torch::nn::Module> module_;  // null: the trainer's model
  const Trainer* trainer_ = nullptr;
  std::vector<std::string> names_;
  std::size_t statistics_ = 0;          // index of the first statistic in the three lists
  std::vector<at::Tensor> parameters_;  // the floating-point parameters, then the statistics
  std::vector<at::Tensor> averages_;    // after swap(): the weights
  std::vector<at::Tensor> unrounded_;   // after swap(): the averages of 16-bit parameters
  std::map<std::string, at::Tensor> loaded_;
  std::int64_t updates_ = 0;
};

/// While an AveragedWeights lives, the model has the averages instead of its weights and statistics.
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

/// Makes an evaluator that evaluates, by `actual`, the averaged weights. `average` must outlive the result. Collective
/// evaluations first call average_statistics().
[[nodiscard]] std::unique_ptr<Evaluator> create_averaged_evaluator(std::unique_ptr<Evaluator> actual,
                                                                   WeightAverage& average);

}  // namespace mn::extensions
