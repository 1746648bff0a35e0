/// Reduces the gradients of sharded parameters: each rank gets its pieces of the mean.
///
/// Once all gradients of a unit (sharded_unit.hpp) have arrived, the unit is reduced, while backward continues, and the
/// buffer of the gradients is freed (unit_reduction.hpp).
/// (1) A round reduces each unit once. The order of the units is equal on all ranks and in all rounds: a unit that is
///     complete early waits for the preceding units.
/// (2) At the step the ranks agree on the number of rounds, and a rank that lacks rounds adds zeros. Ranks may
///     run different numbers of backwards, and a rank without samples only calls step().
/// (3) A gradient that arrives after the reduction of the unit is kept for an extra round.
/// (4) A unit can be reduced once the factor is known by which the rank's gradients are multiplied. scale_loss(loss,
///     samples) sets the factor before backward; without scale_loss() all units are reduced at the step.
/// (5) With Shard::kOptimizer gradients collect until the last backward of the step; with keep_gradients they do so
///     while no_sync() is held. Otherwise each backward is reduced, and no buffer waits.
/// (6) A backward may make a gradient in several parts, for example with recompute_activations() of a block that is
///     used several times. A unit is complete once it has the number of parts that a backward of the last step made.
/// (7) If there are several groups of ranks (ShardOptions::group), the reduce-scatter is within the group. An allreduce
///     between replicas follows, also in the order of (1).
/// (8) If all ranks run on the CPUs of one node, reductions gain nothing during backward (gains_from_background()).
///     Reductions then block, the buffers are shared memory that serves in all steps, and with Shard::kOptimizer all
///     reductions wait for the step. A rank's share of the sum then lies in the buffer.
/// Parameters have no gradient after backward; after reduce() the pieces (ShardedParameters::pieces()) have the mean.
/// Cost of a step: one reduce-scatter of each unit, an allreduce of 8 bytes, and an allreduce of 4 bytes per parameter.
/// Memory: the rank's shares, and the units whose gradients are under way.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <mn/gradients/gradient_reduction.hpp>
#include <mn/gradients/optimizer_options.hpp>
#include <mn/gradients/ready_hooks.hpp>
#include <mn/gradients/step_weights.hpp>
#include <mn/gradients/unit_reduction.hpp>
#include <mn/sharding/sharded_parameters.hpp>
#include <mn/sharding/unit_memory.hpp>

namespace mn {

class ShardedReduction : public GradientReduction {
 public:
  /// `weights` is the owner of the weights of losses and steps.
  ShardedReduction(std::shared_ptr<ShardedParameters> shards, std::shared_ptr<Communicator> comm,
                   std::shared_ptr<GradientAverager> averager, const StepWeights& weights,
                   const OptimizerOptions& options);
  ~ShardedReduction() override;

  void train_only(const std::vector<bool>& parameters) override;
  void clear() override;
  void scale(double factor) override;
  void announce(StepPromise::Weight weight) override { find_weight_ = std::move(weight); }
  ReductionResult reduce(const StepWeight& weight, bool has_fault) override;

 private:
  struct Unit : UnitReduction {
    using UnitReduction::UnitReduction;
    std::size_t expected = 0;  // (6): parts of gradients in a backward
    std::size_t arrivals = 0;  // parts of gradients since the last reduction
  };
  void arrived(std::size_t i);
  [[nodiscard]] std::optional<c10::Stream> stream_for(const at::Tensor& gradient);
  void multiply(double factor);
  void launch_complete();
  void launch(Unit& unit);
  [[nodiscard]] bool may_launch();
  [[nodiscard]] Unit& unit_of_launch(std::size_t launch) { return units_[order_[launch % order_.size()]]; }
  [[nodiscard]] std::size_t rounds_needed() const;
  void agree_on_rounds();
  [[nodiscard]] StepAgreement agree(const StepWeight& weight, bool has_fault);
  void begin_step();
  void expect_parts();
  void make_buffers();
  void move_to_host();
  void give_pieces(const StepAgreement& agreement);

  std::shared_ptr<ShardedParameters> shards_;
  const StepWeights& weights_;
  bool keeps_;    // (5)
  bool blocks_;   // (8)
  bool in_step_;  // (8): all reductions wait for the step
  std::deque<Unit> units_;
  std::optional<UnitBuffers> buffers_;               // (8)
  std::vector<std::size_t> order_;                   // units in the order of reductions (1); without frozen units
  std::vector<bool> is_trained_, has_;               // [parameters] has_: this rank has a gradient in this step
  std::vector<std::size_t> parts_, parts_expected_;  // [parameters] (6): in this step; in a backward
  std::size_t launched_ = 0;                         // reductions begun in this step
  StepPromise::Weight find_weight_;
  std::optional<c10::Stream> stream_;  // current at the beginning of the step; orders all uses of the buffers
  std::optional<double> factor_;       // (4): of this step's gradients, once a unit was reduced
  std::optional<ReadyHooks> hooks_;
};

}  // namespace mn
