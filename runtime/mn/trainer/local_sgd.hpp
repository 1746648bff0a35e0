/// Local SGD: each rank trains by itself, and every few steps all ranks average their parameters.
///
/// Every K updates the parameters move from the last average by the weighted mean d of the ranks' changes since then
/// (Stich 2019, arXiv:1805.09767). With outer momentum m they move by v ← m v + d instead: slow momentum (Wang et al.
/// 2020, SlowMo, arXiv:1910.06643, with α = 1 and a constant learning rate).
/// (1) After an average all ranks hold the same bits: the mean of changes is added to an anchor that all share.
/// (2) A rank weighs by its samples since the last average; a rank without any follows the others.
/// (3) Each rank's optimizer keeps its own state.
/// (4) A variance changes by (v − v₀) + d², less E[d]² after the average, with d = m − m₀ (running_statistics.hpp).
/// Cost: one collective of all parameters every K steps. Memory: two copies of the parameters, three with momentum.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/trace.hpp>
#include <mn/gradients/step_weight.hpp>
#include <mn/tensor/flat_buffer.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/running_statistics.hpp>

namespace mn {

class LocalSgd {
 public:
  /// Collective. All ranks hold the same parameters. `outer_momentum` is in [0, 1).
  LocalSgd(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm, std::int64_t steps,
           double outer_momentum, std::shared_ptr<Trace> trace);

  /// Collective. From now on averages include these buffers, without momentum.
  void average_also(std::vector<AveragedBuffer> buffers);

  /// Collective, after each local update of this weight. Where collective calls within its backward took all ranks to
  /// weigh the same, and they do not, ArgumentError follows at the average.
  void step(const StepWeight& weight);
  /// Collective: averages now, unless there was no step since the last average.
  void synchronize();
  /// Starts from the present parameters, which are the same on all ranks.
  void restart();

  /// Bytes that this rank has passed to collectives.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

  /// The outer momentum, between averages. It is the same on all ranks, so rank 0's alone.
  [[nodiscard]] NamedTensors state() const;
  /// Collective; the other ranks' `state` is ignored.
  void load_state(const NamedTensors& state);

 private:
  void lay_out();
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

  std::optional<FlatBuffer> anchor_;  // parameters, then buffers, as of the last average
  std::optional<FlatBuffer> change_;  // since then; the weight in its tail
  std::vector<at::Tensor> velocity_;  // [parameters]; empty without outer momentum
  std::int64_t steps_ = 0;            // since then
  double weight_ = 0;                 // sum over those steps
  bool assumed_equal_ = false;        // in one of those steps
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace mn
