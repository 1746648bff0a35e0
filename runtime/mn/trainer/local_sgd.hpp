/// Local SGD: each rank trains by itself, and every few steps all ranks average their parameters.
///
/// Every K updates the parameters move from the last average by the weighted mean d of the ranks' changes (Stich 2019,
/// arXiv:1805.09767). With outer momentum m they move by v ← m v + d: slow momentum (Wang et al. 2020, SlowMo,
/// arXiv:1910.06643, with α = 1 and a constant learning rate).
/// (1) After an average the parameters are equal on all ranks, bit for bit: every rank adds the mean change to the last
///     average, the anchor.
/// (2) A rank's change is weighted by the rank's samples since the last average. A rank without samples has weight 0,
///     and takes the mean change of the other ranks.
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
  /// Collective. All ranks must hold equal parameters. `outer_momentum` is at least 0 and less than 1.
  LocalSgd(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm, std::int64_t steps,
           double outer_momentum, std::shared_ptr<Trace> trace);

  /// Collective. From now on averages also include these buffers, but without momentum.
  void average_also(std::vector<AveragedBuffer> buffers);

  /// Collective, called after each local update with its weight. Invariant 5: the result has the faults that the ranks
  /// tell each other if this step makes an average; otherwise none.
  [[nodiscard]] ReductionResult step(const StepWeight& weight);
  /// Collective: makes an average now, unless there was no step since the last one.
  [[nodiscard]] ReductionResult synchronize();
  /// Collective: makes an average, and tells all ranks that this rank is about to change its parameter set.
  [[nodiscard]] ReductionResult announce_set_change() { return average(/*set_changes=*/true); }
  /// Returns the number of steps since the last average.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }
  /// Begins anew from the present parameters, which must be equal on all ranks.
  void restart();

  /// Returns how many bytes this rank has passed to collective calls.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

  /// Returns the state of the outer momentum, which is equal on all ranks, on rank 0; other ranks return nothing.
  [[nodiscard]] NamedTensors state() const;
  /// Collective: loads rank 0's `state` on all ranks.
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

  std::optional<FlatBuffer> anchor_;  // parameters and then buffers, as at the last average
  std::optional<FlatBuffer> change_;  // changes since then; in the tail the weight and flags
  std::vector<at::Tensor> velocity_;  // [parameters]; empty without outer momentum
  std::int64_t steps_ = 0;            // number of steps since the last average
  double weight_ = 0;                 // sum of the steps' weights
  bool assumed_equal_ = false;        // a backward pass assumed equal weights on all ranks
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace mn
