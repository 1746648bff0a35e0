/// Local SGD: every rank trains by itself, and now and then all take the mean of their parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/train/flat_buffer.hpp>
#include <mn/train/safetensors.hpp>
#include <mn/train/trace.hpp>

namespace mn {

/// Averages parameters every `steps` updates (Stich 2019, arXiv:1805.09767), each rank weighed by its samples since the
/// last average. With outer momentum m the mean change d of the parameters moves them by v ← m v + d instead of d: slow
/// momentum (Wang et al. 2020, SlowMo, arXiv:1910.06643, with α = 1 and a constant learning rate). Each rank's
/// optimizer keeps its own state.
class LocalSgd {
 public:
  /// Collective. All ranks hold the same parameters. `outer_momentum` is in [0, 1).
  LocalSgd(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm, std::int64_t steps,
           double outer_momentum, std::shared_ptr<Trace> trace);

  /// Collective. These (batch normalisation's statistics) are averaged too from now on, without momentum; those that
  /// are not floats are left out.
  void average_also(const std::vector<at::Tensor>& buffers);

  /// Collective, after each local update: this rank's counted `weight`.
  void step(double weight);
  /// Collective: averages now, unless there was no step since the last time.
  void synchronize();
  /// The parameters were set, alike on all ranks.
  void restart();

  /// Bytes that this rank gave to collectives so far.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

  /// The outer momentum, between averages: alike on all ranks, so rank 0's alone. load_state is collective; on the
  /// other ranks `state` counts for nothing.
  [[nodiscard]] NamedTensors state() const;
  void load_state(const NamedTensors& state);

 private:
  void lay_out();
  void move_to_mean(double mean_weight);

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;
  std::shared_ptr<Communicator> comm_;
  std::int64_t period_;
  double outer_momentum_;
  std::shared_ptr<Trace> trace_;

  FlatBuffer anchor_;                 // parameters, then buffers, as of the last average
  FlatBuffer change_;                 // since then; the weight in its tail
  std::vector<at::Tensor> velocity_;  // [parameters]; empty without outer momentum
  std::int64_t steps_ = 0;            // since then
  double weight_ = 0;                 // of them
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace mn
