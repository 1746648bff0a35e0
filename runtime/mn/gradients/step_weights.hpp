/// Computes the weight of a rank in a step from numbers of samples. No other class computes weights.
///
/// The mean gradient of the ranks is Σ nᵣ gᵣ / Σ nᵣ, where rank r's loss is a mean over nᵣ samples (images, tokens, or
/// whatever step(samples) counts). A weight is a number of samples divided by a unit.
/// (1) In the first step the ranks agree on the unit, the largest number of samples of any rank. A rank with as many
///     samples weighs 1 and needs no pass over its gradients.
/// (2) Before the first step, and if a rank suddenly has many more samples, scale_loss() takes a unit of the rank's
///     own. Therefore it waits for no rank, and no float16 loss overflows. Gradients that travel within backward are
///     converted to the agreed unit (pass_gradients_over()); the step converts all other gradients
///     (StepWeight::factor).
/// (3) If gradients are float16, the ranks agree on the unit anew in each step, and the unit of the losses is at least
///     the number of samples in the step up to now (LossUnit). Therefore no weight is above 1, and no gradient
///     overflows.
/// (4) All losses of a step may have been weighed by another optimizer, and a loss may reach none of the parameters. In
///     any case the gradients have the losses' unit, and the step converts them to the agreed unit.
/// (5) loss_ranks include all ranks of the optimizer; therefore all of the optimizer's ranks know the same Σ nᵣ.
/// (6) A rank that changes its parameter set before a step must make the same collective calls as a rank that is in the
///     step already. If the step begins with an agreement on the unit, the changing rank takes part, and sends
///     kSetChange in place of a number of samples.
/// Cost: one reduction of 8 bytes in the first step, or in each step with float16 gradients. With loss_ranks each step
/// makes two reductions: the first over the loss_ranks, the second over the optimizer's ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <mn/comm/communicator.hpp>
#include <mn/gradients/gradient_watch.hpp>
#include <mn/gradients/step_weight.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {

class StepWeights {
 public:
  /// `loss_ranks` has the meaning of OptimizerOptions::loss_ranks, and may be null.
  StepWeights(std::shared_ptr<Communicator> comm, std::shared_ptr<Communicator> loss_ranks);
  ~StepWeights() { forget_samples_weighed(this); }
  StepWeights(const StepWeights&) = delete;  // losses point to the StepWeights that weighed them
  StepWeights& operator=(const StepWeights&) = delete;
  /// Collective if there are loss_ranks. If the loss_ranks of any rank lack a rank of the optimizer (5), all ranks
  /// throw UsageError.
  void check_loss_ranks() const;
  /// Call it with `narrow` = true if some gradients are float16. The ranks then agree on the unit in each step (3).
  void set_narrow(bool narrow) noexcept { is_narrow_ = narrow; }

  /// Local. Returns the weight of a loss that is a mean over `samples` samples. `losses` is the number of losses in the
  /// step. Throws ArgumentError if `samples` is negative or not finite.
  [[nodiscard]] LossWeight of_loss(double samples, std::int64_t losses);
  /// A function that makes the calling rank's parameter set follow the change of another rank's set (6), or throws.
  using FollowChange = std::function<void()>;
  /// Returns the weight of a step over `samples` samples, before add_losses(). Returns no value if no rank has ever had
  /// a sample. Collective with loss_ranks, in the first step, and as long as the ranks have no unit. Throws
  /// ArgumentError if `samples` is negative or not finite.
  [[nodiscard]] std::optional<StepWeight> of_step(double samples, const FollowChange& follow_change);
  /// Returns the weight of a step in which all ranks weigh the same. Collective in the first step.
  [[nodiscard]] StepWeight of_equal_step(const FollowChange& follow_change);
  /// Tells all ranks that the calling rank's parameter set is about to change (6). If the next step begins with an
  /// agreement on the unit, the call is collective; otherwise it does nothing.
  void announce_set_change();

  /// Local. Sets the members `factor` and `assumed_equal` of `weight` from the losses of the backwards that `watch` has
  /// seen. Throws ArgumentError if scale_loss() had other samples than the step, or if only some backwards began at
  /// weighted losses. Throws UsageError if backward has received gradients from ranks whose losses the step does not
  /// count.
  void add_losses(StepWeight& weight, const GradientWatch& watch) const;
  /// Local. Returns StepWeight::factor of the gradients so far; no value if it is not known before the step.
  [[nodiscard]] std::optional<double> factor_so_far(const GradientWatch& watch) const;
  /// From now on the ranks agree on the unit at their first loss. A rank without a loss agrees in its step. The ranks
  /// call `join` before they agree.
  void agree_at_first_loss(std::function<void()> join) { join_ = std::move(join); }
  /// Predicts the weight of a step over `samples` samples. Returns no value if the weight is not known yet.
  [[nodiscard]] std::optional<StepWeight> ahead(double samples, const GradientWatch& watch) const;

  /// Throws ArgumentError if reduce_gradients() and step() counted different numbers of samples. `reduced` is the
  /// weight of the first, `step` the weight of the second.
  void check_same(const StepWeight& reduced, const StepWeight& step) const;

  /// Call it after a step, or when zero_grad() drops the gradients.
  void forget();

  /// Returns the number of samples with the weight 1. Returns 0 before the ranks have agreed.
  [[nodiscard]] double unit() const noexcept { return unit_; }
  void set_unit(double unit) noexcept { unit_ = unit; }

 private:
  /// The sum of a step's weighted losses.
  struct LossTotal {
    double samples = 0;
    double unit = 0;  // 0: no loss had a weight
    const void* owner = nullptr;
    bool mixed = false;  // losses have different owners or units
  };
  [[nodiscard]] static LossTotal total_of_losses(const GradientWatch& watch);
  [[nodiscard]] double most_samples(const void* owner) const;
  [[nodiscard]] bool agrees(const LossTotal& losses, double samples) const;
  [[nodiscard]] bool agrees_in_step() const noexcept { return is_first_ || unit_ == 0 || loss_ranks_; }
  [[nodiscard]] double agree(double samples, const FollowChange& follow_change);
  [[nodiscard]] double divisor_samples(double samples) const;
  void check_groups(const GradientWatch& watch) const;
  [[noreturn]] void fail(const LossTotal& losses, double samples) const;
  [[nodiscard]] std::string text_of(double weight) const;

  std::shared_ptr<Communicator> comm_, loss_ranks_;
  bool is_narrow_ = false;
  std::function<void()> join_;              // null: the ranks agree in the step
  bool is_first_ = true;                    // no step has begun
  bool counts_samples_ = true;              // the last step had samples
  double unit_ = 0;                         // agreed; 0: not yet
  c10::intrusive_ptr<LossUnit> loss_unit_;  // of this step's losses; null: none yet
  double scaled_samples_ = 0;               // samples of all calls of of_loss() in this step
  SamplesByOwner weighed_before_;           // samples_weighed() at the begin of the step
};

}  // namespace mn
