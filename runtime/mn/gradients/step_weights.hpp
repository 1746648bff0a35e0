/// What a rank weighs in a step: the one owner of samples, of their unit, and of weights.
///
/// The mean gradient of the ranks is Σ nᵣ gᵣ / Σ nᵣ, where rank r's loss is a mean over nᵣ samples (or tokens: what
/// step(samples) counts). A weight is samples / unit.
/// (1) The unit is the largest number of samples that a rank had in the first step, where the ranks agree on it: a rank
///     with as many weighs 1, and no pass over its gradients is needed.
/// (2) Before that, and where a rank suddenly has many more samples, its losses have a unit of the rank's own: so
///     scale_loss() waits for no rank, and no loss makes a float16 overflow. A gradient that travels within backward is
///     converted (pass_gradients_over()), and the step multiplies the rest.
/// (3) float16 gradients have a unit for each step: no weight is above 1, so none makes a gradient overflow.
/// (4) A loss may be weighed by another optimizer, and one of several losses may reach none of the parameters. What the
///     gradients carry differs from what the step wants by the ratio of the units, whatever losses have reached them.
/// Cost: one reduction of 8 bytes in the first step; of float16 gradients, or with loss_ranks, in each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <mn/comm/communicator.hpp>
#include <mn/gradients/gradient_watch.hpp>
#include <mn/gradients/step_weight.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {

class StepWeights {
 public:
  /// `loss_ranks` is OptimizerOptions::loss_ranks, or null.
  StepWeights(std::shared_ptr<Communicator> comm, std::shared_ptr<Communicator> loss_ranks);
  /// Whether any gradient is a float16 (3).
  void set_narrow(bool narrow) noexcept { is_narrow_ = narrow; }

  /// Local. Of one of a step's `losses`. Throws ArgumentError if `samples` is negative or not finite.
  [[nodiscard]] LossWeight of_loss(double samples, std::int64_t losses);
  /// Collective while there is no unit. Of a step that counts `samples`, before add_losses(). No value while no rank has
  /// ever had a sample. Throws as of_loss().
  [[nodiscard]] std::optional<StepWeight> of_step(double samples);
  /// Of a step in which every rank weighs the same.
  [[nodiscard]] StepWeight of_equal_step() const;

  /// Local. Sets `factor` and `assumed_equal` by the backwards that `watch` has seen. Throws ArgumentError if the
  /// losses came with other samples, UsageError if ranks that do not count have sent gradients within backward.
  void add_losses(StepWeight& weight, const GradientWatch& watch) const;
  /// What a step of `samples` will have. No value if it can't be known yet.
  [[nodiscard]] std::optional<StepWeight> ahead(double samples, const GradientWatch& watch) const;

  /// Throws ArgumentError unless a step has the weight that its gradients were reduced with.
  void check_same(const StepWeight& reduced, const StepWeight& step) const;

  /// The step was made, or its gradients are gone.
  void forget();

  /// 0: none yet.
  [[nodiscard]] double unit() const noexcept { return unit_; }
  void set_unit(double unit) noexcept { unit_ = unit; }

 private:
  /// What the losses of a step have given their gradients.
  struct LossTotal {
    double samples = 0;
    double unit = 0;  // 0: no loss had a weight
    bool mixed = false;
  };
  [[nodiscard]] static LossTotal total_of_losses(const GradientWatch& watch);
  [[nodiscard]] bool agrees(const LossTotal& losses, double samples) const;
  [[nodiscard]] double divisor_samples(double samples) const;
  void check_groups(const GradientWatch& watch) const;
  [[noreturn]] void fail(const LossTotal& losses, double samples) const;
  [[nodiscard]] std::string text_of(double weight) const;

  std::shared_ptr<Communicator> comm_, loss_ranks_;
  bool is_narrow_ = false;
  double unit_ = 0;                // agreed; 0: not yet
  double loss_unit_ = 0;           // of this step's losses; 0: none yet
  double scaled_samples_ = 0;      // samples of this step's of_loss()
  SamplesWeighed weighed_before_;  // when the step began
};

}  // namespace mn
