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

namespace mn {
class ShardedParameters;
}

namespace mn::extensions {

/// After each iteration, average ← d · average + (1 − d) · weights. After t updates, d = min(decay, (1 + t) / (10 +
/// t)), so that the initial weights count little even in short trainings (as in TensorFlow's ExponentialMovingAverage;
/// Polyak and Juditsky 1992). The running statistics of normalization layers are averaged in the same way, because
/// statistics belong to weights; all other buffers are not averaged. Checkpoints hold the average beside the weights.
///
/// Averaged weights are equal on every rank. Local SGD is therefore excluded, because its ranks have different weights.
/// Averaged statistics become equal on every rank when they are evaluated, and when AllreducePersistent runs.
///
/// Of sharded parameters each rank averages its pieces.
///
/// Cost: one pass over the parameters in each iteration, and memory for one copy of them. The average of 16-bit
/// parameters is in float32, because in 16 bits an average with decay 0.999 would never change. If an optimizer keeps
/// float32 masters of 16-bit parameters (master_weights.hpp), the masters are averaged.
class WeightAverage final : public Extension {
 public:
  /// Averages the trainer's model or, if given, only its part `module`, such as a GAN's generator. Several averages
  /// need different names (ExtendOptions::name). Throws UsageError unless 0 < decay < 1.
  explicit WeightAverage(double decay, std::shared_ptr<torch::nn::Module> module = nullptr);
  /// Throws UsageError if `makes_local_steps`, that is, if the optimizer makes local steps.
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
  /// Returns the averages of the running statistics, because these averages differ from rank to rank.
  [[nodiscard]] NamedTensors rank_tensors() const override;
  void load_rank_tensors(const NamedTensors& tensors) override { loaded_.insert(tensors.begin(), tensors.end()); }
  /// Every rank takes rank 0's averages of the statistics, as a resume gives every rank rank 0's buffers.
  void map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& comm) override;
  /// Makes the averages of statistics equal on all ranks, because load_model() loads only those of rank 0.
  void average_kept_statistics(Trainer& trainer) override;

  /// Exchanges the model's weights and statistics with their averages. A second call exchanges them back. Collective if
  /// parameters are sharded, otherwise local. Call it only after training has begun.
  void swap();
  /// Collective: averages the statistics by average_buffers(), while the averages are in the model.
  void average_statistics() const;

 private:
  [[nodiscard]] NamedTensors find_tensors(const torch::nn::Module& model);

  double decay_;
  std::shared_ptr<torch::nn::Module> module_;  // null: the trainer's model
  const Trainer* trainer_ = nullptr;
  std::vector<std::string> names_;
  std::size_t statistics_ = 0;              // index of the first statistic in the three lists
  std::vector<at::Tensor> parameters_;      // the floating-point parameters or this rank's pieces, then the statistics
  std::vector<at::Tensor> averages_;        // after swap(): the weights
  std::vector<at::Tensor> unrounded_;       // after swap(): the averages of 16-bit parameters
  std::vector<ShardedParameters*> shards_;  // owners of the pieces
  std::map<std::string, at::Tensor> loaded_;
  std::int64_t updates_ = 0;
};

/// While an object of this class lives, the model has the averages in place of its weights and statistics.
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

/// Makes an evaluator that puts the averaged weights into the model and then evaluates by `actual`. `average` must
/// outlive the result. A collective evaluation first calls average_statistics().
[[nodiscard]] std::unique_ptr<Evaluator> create_averaged_evaluator(std::unique_ptr<Evaluator> actual,
                                                                   WeightAverage& average);

}  // namespace mn::extensions
