/// An iteration of a Trainer: minibatches → losses → gradients → update, perhaps as a CUDA graph. Internal.
///
/// (1) The gradients of an iteration's minibatches add up to the gradient of the mean loss over all samples of these
///     minibatches. If the loss function gives weights, it is the weighted mean.
/// (2) A rank without samples makes the step with weight 0, because every rank must take part in the collective calls.
/// (3) A step reads no loss, because reading would wait for the device.
/// With a CUDA graph (graphed_step.hpp):
/// (4) Each launch of the graph overwrites the loss and the metrics of the recorded step, so observations hold copies
///     of them.
/// (5) Extensions see each iteration's loss, but not its autograd graph.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <mn/trainer/collective_use.hpp>
#include <mn/trainer/loss.hpp>
#include <mn/trainer/training_parts.hpp>

namespace mn {

class GraphedStep;

/// What the program gives to a step: either a loss function or an update function.
struct StepProgram {
  ComputeLoss compute_loss;
  UpdateParameters update;
};

class TrainingStep {
 public:
  using NextBatch = std::function<Batch()>;
  /// Called after each forward pass; `loss` still has its autograd graph. If the loss has weight 0, `is_mean` is false,
  /// and `loss` may be NaN.
  using AfterForward = std::function<void(const at::Tensor& loss, bool is_mean, const Summary& metrics)>;

  /// Throws UsageError if the options ask for a CUDA graph, but the step cannot become a graph.
  TrainingStep(const TrainingParts& parts, StepProgram program, const TrainerOptions& options, NextBatch next_batch,
               AfterForward after_forward);
  ~TrainingStep();

  /// Collective: runs one iteration, which updates the parameters once.
  void run();

 private:
  /// The sums over the minibatches of an iteration so far.
  struct Accumulated {
    std::int64_t samples = 0;
    double weight = 0;
  };
  /// The result of the loss function for a minibatch.
  struct ForwardResult {
    Loss loss;
    Summary metrics;
  };
  /// The result of a recorded step. Invariant 4: each launch of graph_ overwrites these tensors.
  struct RecordedResult : ForwardResult {
    double weight;
  };

  [[nodiscard]] MultiNodeOptimizer& optimizer() const { return *parts_.optimizers.front().optimizer; }
  void run_program_update();
  void run_minibatches(Batch batch);
  void run_graph();
  void record(const Batch& batch);
  void accumulate(const Batch& batch, Accumulated& all, bool is_last);
  [[nodiscard]] ForwardResult forward(const Batch& batch);
  void observe(const Batch& batch, const ForwardResult& result);
  void add_values(const Summary& values);
  void observe_update(std::int64_t samples);

  const TrainingParts& parts_;
  StepProgram program_;
  std::shared_ptr<Trace> trace_;
  NextBatch next_batch_;
  AfterForward after_forward_;
  CollectiveUse loss_calls_;
  std::unique_ptr<GraphedStep> graph_;  // null without a CUDA graph
  std::optional<RecordedResult> recorded_;
};

}  // namespace mn
