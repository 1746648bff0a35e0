/// A training step whose work on the GPU is one CUDA graph: the host launches it with one call, which pays where steps
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
/// (1) The first steps run as they are. Once several in a row were alike and nothing is left to be tried, one is
///     recorded (tensor/device_graph.hpp); from then on the graph stands for all steps that are like it. Others, such
///     as the last of an epoch, run as they are. All ranks launch the graph, or none does.
/// (2) Steps are alike if their inputs have the same shapes, strides and dtypes, and their numbers are the same.
/// (3) Learning rates may change from step to step. Where other settings of the optimizer or its parameters do, or a
///     state was loaded, the next step is recorded again.
/// (4) The graph holds what the host decided while it was recorded: hooks and the model must decide alike in each step,
///     and may not read values of the GPU, or draw random numbers on the host.
/// The results are those of the same steps without a graph, bit for bit, where kernels are deterministic.
/// Cost of a launched step: a copy of the inputs on the GPU, of the results, and among several ranks one number that
/// the hosts agree on. Memory: a graph keeps its activations between steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

class Capturable;
class DeviceGraph;
class MultiNodeOptimizer;

/// Makes steps of one optimizer, and the graph of them, as said above.
class GraphedStep {
 public:
  /// A whole step, from zero_grad() to step(), on these inputs. What it returns are results that the program reads.
  using Step = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

  /// Throws UsageError that says why, if there is no GPU, or if the optimizer's options exclude it: double
  /// buffering, local steps, compression, a trace, debug mode, with several ranks a communicator that reduces through
  /// the host, an optimizer that is not FusedAdam, FusedAdamW or FusedSgd.
  explicit GraphedStep(std::shared_ptr<MultiNodeOptimizer> optimizer);
  ~GraphedStep();
  GraphedStep(const GraphedStep&) = delete;             ///< not copyable
  GraphedStep& operator=(const GraphedStep&) = delete;  ///< not copyable

  /// Collective: makes the step, and returns its results, which are the caller's. `inputs` lie on the GPU. `numbers`:
  /// those of the minibatch that `step` uses, such as its samples. `step` does the same in every call. Throws
  /// UsageError if it can't be recorded.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const std::vector<double>& numbers,
                              const Step& step);
  /// Within `step`: it is being recorded, and computes nothing now.
  [[nodiscard]] bool is_recording() const noexcept { return is_recording_; }
  /// The last run() launched the graph.
  [[nodiscard]] bool has_launched() const noexcept { return has_launched_; }

 private:
  enum class Way : std::int64_t { kAsItIs, kRecord, kLaunch };

  /// What makes steps alike (2), (3).
  struct Kind {
    std::vector<std::int64_t> shapes;
    std::vector<double> numbers;
    bool operator==(const Kind&) const = default;
  };
  [[nodiscard]] const char* why_no_graph() const;
  [[nodiscard]] std::vector<double> settings();
  [[nodiscard]] Kind kind_of(const std::vector<at::Tensor>& inputs, const std::vector<double>& numbers);
  [[nodiscard]] Way agree(const Kind& kind);
  void record(const std::vector<at::Tensor>& inputs, const Step& step);
  void record_work(const Step& step);
  void note(const Kind& kind);
  void launch(bool is_first);

  std::shared_ptr<MultiNodeOptimizer> optimizer_;
  Capturable* update_;  // the optimizer's update; null: a graph cannot hold it
  std::int64_t steps_ = 0;
  std::int64_t alike_ = 0;  // the last so many steps were of the last kind
  Kind last_;
  Kind recorded_;
  std::vector<at::Tensor> inputs_, results_;  // of the graph, at the addresses that it knows
  std::uint64_t bytes_ = 0;                   // that the ranks exchange in a launch
  bool is_recording_ = false;
  bool has_launched_ = false;
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace mn
