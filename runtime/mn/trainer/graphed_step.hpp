/// A training step as one CUDA graph: the host launches all work on the GPU with one call. A graph saves time if steps
/// are short.
///
///   GraphedStep graph(optimizer);
///   const auto loss = graph.run({images, labels}, {samples}, [&](const std::vector<at::Tensor>& inputs) {
///     optimizer->zero_grad();
///     at::Tensor loss = cross_entropy(model->forward(inputs[0]), inputs[1]);
///     optimizer->announce_step(samples);
///     loss.backward();
///     optimizer->step(samples);
///     return std::vector{loss.detach()};
///   })[0];
///
/// (1) The first steps run without a graph. A step is recorded (tensor/device_graph.hpp) after several alike steps in a
///     row, but not before GradientReduction::is_settled(). From then on the graph replaces all steps that are alike to
///     the recorded step. A step that is not alike, such as the last step of an epoch, runs without the graph. In each
///     step, either all ranks launch the graph or no rank does.
/// (2) Two steps are alike if the inputs of both have the same shapes, strides and dtypes, and if both have the same
///     `numbers` (see run()).
/// (3) Learning rates may change from step to step without a new recording. If any other setting of the optimizer
///     changes, or its parameters change, or a state is loaded, the next step is recorded again.
/// (4) The graph repeats the decisions that the host made during the recording. Hooks and the model must therefore make
///     the same decisions in each step, must not read values of the GPU, and must not draw random numbers on the host.
/// The results equal those of steps without a graph, bit for bit, if kernels are deterministic. Cost of a launched
/// step: copies of inputs and results on the GPU. With several ranks, the hosts also agree on one number. Memory: a
/// graph keeps its activations between steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

class DeviceGraph;
class DeviceUpdate;
class MultiNodeOptimizer;

/// Runs the steps of one optimizer. Records a step as a graph when this is possible, and launches the graph in later
/// steps.
class GraphedStep {
 public:
  /// A function that makes a whole step, from zero_grad() to step(). It returns the tensors that the program reads
  /// after the step.
  using Step = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

  /// Throws UsageError with the reason if there is no GPU, or if one of the following excludes a graph: double
  /// buffering, local steps, compression, a trace, debug mode, an optimizer other than FusedAdam, FusedAdamW and
  /// FusedSgd, or, with several ranks, a communicator that reduces through the host. If `optional` is true, a step is
  /// recorded only if the GPU has enough memory both for the graph and for a step without the graph. If no step was
  /// recorded among the first 200 steps, none will be recorded later.
  explicit GraphedStep(std::shared_ptr<MultiNodeOptimizer> optimizer, bool optional = false);
  ~GraphedStep();
  GraphedStep(const GraphedStep&) = delete;             ///< not copyable
  GraphedStep& operator=(const GraphedStep&) = delete;  ///< not copyable

  /// Returns the reason why this optimizer's steps cannot become a graph. Null if they can.
  [[nodiscard]] static const char* why_no_graph(const MultiNodeOptimizer& optimizer);

  /// Collective: makes the step, and returns copies of its results. `inputs` lie on the GPU. `numbers` has all numbers
  /// of the minibatch that `step` uses, such as the number of samples. `step` must do the same work in every call.
  /// Throws UsageError if the step can't be recorded.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const std::vector<double>& numbers,
                              const Step& step);
  /// True while `step` is being recorded. The operations of `step` then compute nothing. `step` may call this function.
  [[nodiscard]] bool is_recording() const noexcept { return is_recording_; }
  /// True if the last run() launched the graph.
  [[nodiscard]] bool has_launched() const noexcept { return has_launched_; }

 private:
  enum class Way : std::int64_t { kWithoutGraph, kRecord, kLaunch };

  /// Everything that must be equal for two steps to be alike (invariants 2 and 3).
  struct Kind {
    std::vector<std::int64_t> shapes;
    std::vector<double> numbers;
    bool operator==(const Kind&) const = default;
  };
  [[nodiscard]] std::vector<double> settings();
  [[nodiscard]] Kind kind_of(const std::vector<at::Tensor>& inputs, const std::vector<double>& numbers);
  [[nodiscard]] Way agree(const Kind& kind);
  void record(const std::vector<at::Tensor>& inputs, const Step& step);
  void record_work(const Step& step);
  void note(const Kind& kind);
  void launch(bool is_first);

  std::shared_ptr<MultiNodeOptimizer> optimizer_;
  bool is_optional_;
  DeviceUpdate* update_;  // null: the optimizer has no update that a graph can hold
  std::int64_t steps_ = 0;
  std::int64_t alike_ = 0;  // number of alike steps in a row, up to the last step
  Kind last_;
  Kind recorded_;
  std::vector<at::Tensor> inputs_, results_;  // tensors of the graph, at fixed addresses
  std::uint64_t bytes_ = 0;                   // bytes that the ranks exchange in a launch
  bool is_recording_ = false;
  bool has_launched_ = false;
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace mn
