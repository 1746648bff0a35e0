/// Local SGD: each rank trains by itself. After a fixed number of steps, all ranks average their parameters.
///
/// After every K updates, the ranks compute d, the weighted mean of the changes of their parameters since the last
/// average. The new parameters are the last average plus d (Stich 2019, arXiv:1805.09767). With outer momentum m, the
/// new parameters are the last average plus v, where v ← m v + d (slow momentum: Wang et al. 2020, SlowMo,
/// arXiv:1910.06643, with α = 1 and a constant learning rate).
/// (1) After an average, the parameters are equal on all ranks, bit for bit, because every rank adds the mean change to
///     the last average, called the anchor.
/// (2) A rank's change is weighted by the rank's samples since the last average. A rank without samples has weight 0,
///     and takes the mean change of the other ranks.
/// (3) The state of the torch optimizer, such as its moments, is not averaged; it differs from rank to rank.
/// (4) Running variances are averaged as in running_statistics.hpp. For a variance v and its mean m, let v₀ and m₀ be
///     their values at the last average, and d = m − m₀. The rank contributes (v − v₀) + d² to the average. After the
///     average, E[d]² is subtracted.
/// (5) In each average, every rank tells all ranks whether it has found a fault, and whether it is about to change its
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

  /// Collective. From now on, each average also includes these buffers. Outer momentum does not apply to buffers.
  void average_also(std::vector<AveragedBuffer> buffers);

  /// Collective, called after each local update, with the weight of the update. If this step makes an average, the
  /// result tells whether any rank has a fault (invariant 5); otherwise the result tells of no fault.
  [[nodiscard]] ReductionResult step(const StepWeight& weight);
  /// Collective: makes an average now, unless no step was made since the last average.
  [[nodiscard]] ReductionResult synchronize();
  /// Collective: makes an average now, in which this rank tells all ranks that it is about to change its parameter set.
  [[nodiscard]] ReductionResult announce_set_change() { return average(/*set_changes=*/true); }
  /// Returns the number of steps since the last average.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }
  /// Begins anew from the present parameters, which must be equal on all ranks: they become the last average.
  void restart();

  /// Returns how many bytes this rank has passed to collective calls so far.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

  /// Returns the state of the outer momentum on rank 0. Returns nothing on all other ranks, because the state is equal
  /// on all ranks.
  [[nodiscard]] NamedTensors state() const;
  /// Collective. All ranks load the `state` that rank 0 passes.
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

  std::optional<FlatBuffer> anchor_;  // the parameters, then the buffers, at the last average
  std::optional<FlatBuffer> change_;  // changes of both since then; at the end, weight and flags
  std::vector<at::Tensor> velocity_;  // [parameters]; empty without outer momentum
  std::int64_t steps_ = 0;            // number of steps since the last average
  double weight_ = 0;                 // sum of the weights of these steps
  bool assumed_equal_ = false;        // a backward pass assumed equal weights on all ranks
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace mn
