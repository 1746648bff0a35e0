/// Local SGD: each rank trains by itself, and every few steps all ranks average their parameters.
///
/// Every K updates the parameters move from the last average by the weighted mean d of the ranks' changes (Stich 2019,
/// arXiv:1805.09767). With outer momentum m they move by v ← m v + d: slow momentum (Wang et al. 2020, SlowMo,
/// arXiv:1910.06643, with α = 1 and a constant learning rate).
/// (1) After an average all ranks hold equal bits: the mean change is added to the last average, the anchor.
/// (2) A rank's change is weighted by the rank's samples since the last average. A rank without samples has weight 0,
///     and takes the mean of the other ranks.
/// (3) Each rank's optimizer keeps its own state.
/// (4) A running variance v with mean m contributes (v − v₀) + d² to the average, with d = m − m₀; v₀ and m₀ are the
///     values at the last average. After the average, E[d]² is subtracted (running_statistics.hpp).
/// (5) In each average, a rank tells all ranks whether it has found a fault, and whether it is about to change its
///     parameter set.
/// Cost: one collective of all parameters every K steps. Memory: two copies of the parameters, three with momentum.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/trace.hpp>
#include <mn/gradients/gradient_buffer.hpp>
#include <mn/gradients/step_weight.hpp>
#include <mn/tensor/flat_buffer.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/running_statistics.hpp>

namespace mn {

class LocalSgd {
 public:
  /// Collective. All ranks hold equal parameters. `outer_momentum` is in [0, 1).
  LocalSgd(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm, std::int64_t steps,
           double outer_momentum, std::shared_ptr<Trace> trace);

  /// Collective. From now on averages include these buffers, without momentum.
  void average_also(std::vector<AveragedBuffer> buffers);

  /// Collective. Call it after each local update; `weight` is the update's weight. Returns the faults that the ranks
  /// tell each other in an average (5); none if the step makes no average.
  [[nodiscard]] ReductionResult step(const StepWeight& weight);
  /// Collective: averages now, unless there was no step since the last average.
  [[nodiscard]] ReductionResult synchronize();
  /// Collective: averages now, and tells all ranks that this rank changes its parameter set.
  [[nodiscard]] ReductionResult announce_set_change() { return average(/*set_changes=*/true); }
  /// Steps since the last average.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }
  /// Starts over from the present parameters, which are equal on all ranks.
  void restart();

  /// Bytes that this rank has passed to collectives.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

  /// The outer momentum, for a checkpoint. Empty on all ranks but rank 0, because all ranks have equal momentum.
  [[nodiscard]] NamedTensors state() const;
  /// Collective. Takes rank 0's `state`.
  void load_state(const NamedTensors& state);

 private:
  void lay_out();
  ReductionResult average(bool set_changes);
  void fill_change(double weight);
  void reduce_change();
  void move_to_mean(double mean_weight);
  [[nodiscard]] std::vector<at::Tensor> changes_of_buffers() const;

  std::vector<at::Tensor> parameters_;
  std::vector<AveragedBuffer> buffers_;
  std::shared_ptr<Communicator> comm_;
  std::int64_t period_;
  double outer_momentum_;
  std::shared_ptr<Trace> trace_;

  std::optional<FlatBuffer> anchor_;  // parameters, then buffers, at the last average
  std::optional<FlatBuffer> change_;  // changes since the last average; the tail has the weight and flags (5)
  std::vector<at::Tensor> velocity_;  // [parameters]; empty without outer momentum
  std::int64_t steps_ = 0;            // since the last average
  double weight_ = 0;                 // sum of the steps' weights
  bool assumed_equal_ = false;        // a step's backward assumed equal weights
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace mn
