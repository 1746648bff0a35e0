#include <mn/gradients/step_weights.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

constexpr double kSetChange = std::numeric_limits<double>::infinity();  // sent in place of a number of samples (6)

/// True if a and b are equal except for the rounding of a sum.
bool is_same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }
bool is_at_most(double a, double b) { return a <= b || is_same(a, b); }

void check_samples(double samples) {
  if (!(samples >= 0) || !std::isfinite(samples))
    throw ArgumentError("the samples of a step must be at least 0 and finite, got " + std::to_string(samples));
}

std::string number_text(double samples) { return nlohmann::json(static_cast<float>(samples)).dump() + " samples"; }

}  // namespace

StepWeights::StepWeights(std::shared_ptr<Communicator> comm, std::shared_ptr<Communicator> loss_ranks)
    : comm_(std::move(comm)), loss_ranks_(std::move(loss_ranks)), weighed_before_(samples_weighed()) {}

void StepWeights::check_loss_ranks() const {
  if (!loss_ranks_) return;
  std::int64_t lacks = includes(loss_ranks_->mpi_comm(), comm_->mpi_comm()) ? 0 : 1;
  comm_->allreduce(std::span(&lacks, 1), ReduceOp::kMax);
  if (lacks == 0) return;
  throw UsageError(
      "OptimizerOptions::loss_ranks lacks a rank of this optimizer, so that its ranks would divide by the " +
      std::string("samples of different losses: give a communicator of all ranks whose losses reach the ") +
      "parameters on any of the optimizer's ranks, such as one that all groups of mn::alltoall() are part of");
}

LossWeight StepWeights::of_loss(double samples, std::int64_t losses) {
  check_samples(samples);
  scaled_samples_ += samples;
  const double all = samples * static_cast<double>(losses);
  const bool is_narrow = any_narrow_gradients();
  if (join_ && is_first_ && unit_ == 0) {
    unit_ = agree(all, [] {});  // a sharded parameter set does not change before the first step
  }
  if (!loss_unit_) {
    const bool keeps = !is_narrow && unit_ > 0 && all <= 2 * unit_;
    loss_unit_ = c10::make_intrusive<LossUnit>(keeps ? unit_ : all > 0 ? all : 1);  // (2): or a unit of its own
  } else if (is_narrow && scaled_samples_ > loss_unit_->samples()) {
    // Invariant 3: the unit is at least the number of samples in this step up to now. Each rise of the unit converts
    // all gradients. To make rises rare, the unit at least doubles.
    loss_unit_->rise_to(std::max(scaled_samples_, 2 * loss_unit_->samples()));
  }
  LossWeight loss = {.samples = samples, .unit = loss_unit_->samples(), .shared_unit = loss_unit_, .owner = this};
  if (unit_ > 0) {
    loss.agreed_unit = unit_;
    loss.agreed = comm_.get();
  }
  return loss;
}

/// Returns the number of samples by which the calling rank's part of the mean is divided. Without loss_ranks this
/// number is `samples`. With loss_ranks it is the sum of their samples, divided by the number of the optimizer's ranks.
double StepWeights::divisor_samples(double samples) const {
  if (!loss_ranks_) return samples;
  double sum = samples;
  loss_ranks_->allreduce(std::span(&sum, 1));
  return sum / comm_->size();
}

/// Collective: returns the largest number of samples of any rank. If another rank changes its parameter set meanwhile,
/// the calling rank's set follows the change, and the ranks compare their samples again (invariant 6).
double StepWeights::agree(double samples, const FollowChange& follow_change) {
  for (;;) {
    double most = samples;
    if (join_) join_();
    comm_->allreduce(std::span(&most, 1), ReduceOp::kMax);
    if (most == kSetChange) {
      follow_change();
      continue;
    }
    is_first_ = false;
    return most;
  }
}

void StepWeights::announce_set_change() {
  if (!counts_samples_ || !agrees_in_step()) return;
  double change = kSetChange;
  comm_->allreduce(std::span(&change, 1), ReduceOp::kMax);
}

std::optional<StepWeight> StepWeights::of_step(double samples, const FollowChange& follow_change) {
  check_samples(samples);
  const double most = agrees_in_step() ? agree(samples, follow_change) : 0;
  counts_samples_ = true;
  const double divisor = divisor_samples(samples);
  if (unit_ == 0) unit_ = loss_ranks_ ? divisor : most;
  if (unit_ == 0) return std::nullopt;
  return StepWeight{.own = samples / unit_, .divisor = divisor / unit_, .factor = samples / unit_};
}

StepWeight StepWeights::of_equal_step(const FollowChange& follow_change) {
  if (is_first_) static_cast<void>(agree(0, follow_change));
  counts_samples_ = false;
  return {.divisor = loss_ranks_ ? static_cast<double>(loss_ranks_->size()) / comm_->size() : 1};
}

StepWeights::LossTotal StepWeights::total_of_losses(const GradientWatch& watch) {
  LossTotal all;
  for (const auto& backward : watch.backwards()) {
    for (const LossWeight& loss : backward->losses) {
      // Losses of two optimizers must not be mixed. Their units alone do not show a mix, because in the first step the
      // units of two optimizers may happen to be equal. Therefore the owners are compared, too.
      all.mixed = all.mixed || (all.unit > 0 && (loss.owner != all.owner || !is_same(loss.unit, all.unit)));
      all.unit = loss.unit;
      all.owner = loss.owner;
      all.samples += loss.samples;
    }
  }
  return all;
}

/// Returns an upper bound of the number of samples in a step's losses, if the optimizer `owner` has weighed all of
/// them. If `owner` is null, any single optimizer may have weighed them. Takes the largest of three counts, because
/// some programs call zero_grad() between scale_loss() and backward.
double StepWeights::most_samples(const void* owner) const {
  double most = owner == nullptr || owner == this ? scaled_samples_ : 0;
  for (const auto& [each, weighed] : samples_weighed()) {
    if (owner != nullptr && each != owner) continue;
    const auto found = weighed_before_.find(each);
    const SamplesWeighed before = found == weighed_before_.end() ? SamplesWeighed() : found->second;
    const double rounding = 1e-12 * weighed.made;  // sums over the whole training are subtracted
    most = std::max(most, std::max(weighed.made - before.made, weighed.begun - before.begun) + rounding);
  }
  return most;
}

/// True if the step's losses may have been means over `samples` samples. `losses` lacks a loss that reaches none of the
/// parameters. A loss of this kind may count if the owner of `losses` has weighed it since the step began.
bool StepWeights::agrees(const LossTotal& losses, double samples) const {
  const void* const owner = losses.unit == 0 && scaled_samples_ > 0 ? this : losses.owner;
  return !losses.mixed && is_at_most(losses.samples, samples) && is_at_most(samples, most_samples(owner));
}

void StepWeights::add_losses(StepWeight& weight, const GradientWatch& watch) const {
  check_groups(watch);
  bool any_plain = false, any_weighed = false;
  for (const auto& backward : watch.backwards()) {
    weight.assumed_equal = weight.assumed_equal || backward->assumed_equal;
    (backward->losses.empty() ? any_plain : any_weighed) = true;
  }
  if (any_plain && any_weighed) {
    throw ArgumentError(
        "a backward of this step began at a loss without a weight, another at a loss with one: call "
        "scale_loss(loss, samples) for each loss of the step, or for none");
  }
  if (loss_ranks_ && weight.assumed_equal &&
      !weighs_as_mean(weight.own, weight.divisor * comm_->size() / loss_ranks_->size()))
    fail_assumed_weights();
  const LossTotal losses = total_of_losses(watch);
  if (losses.unit == 0 && scaled_samples_ == 0) return;  // no loss had a weight
  if (unit_ == 0 || !agrees(losses, weight.own * unit_)) fail(losses, weight.own);
  if (losses.unit > 0) weight.factor = losses.unit / unit_;
}

std::optional<double> StepWeights::factor_so_far(const GradientWatch& watch) const {
  const LossTotal losses = total_of_losses(watch);
  if (unit_ == 0 || losses.mixed || losses.unit == 0) return std::nullopt;
  return losses.unit / unit_;
}

std::optional<StepWeight> StepWeights::ahead(double samples, const GradientWatch& watch) const {
  if (unit_ == 0 || samples <= 0 || loss_ranks_) return std::nullopt;
  const LossTotal losses = total_of_losses(watch);
  if (losses.mixed) return std::nullopt;
  const double own = samples / unit_;
  return StepWeight{.own = own, .divisor = own, .factor = losses.unit > 0 ? losses.unit / unit_ : own};
}

void StepWeights::check_same(const StepWeight& reduced, const StepWeight& step) const {
  if (is_same(reduced.own, step.own)) return;
  throw ArgumentError("the gradients were reduced with " + text_of(reduced.own) + " on this rank, but step() counts " +
                      text_of(step.own) +
                      ": give reduce_gradients(samples) or clip_grad_norm(optimizer, max_norm, samples) the samples " +
                      "of step(samples)");
}

void StepWeights::check_groups(const GradientWatch& watch) const {
  const Communicator& counted = loss_ranks_ ? *loss_ranks_ : *comm_;
  for (const auto& backward : watch.backwards()) {
    for (const auto& group : backward->groups) {
      if (includes(counted.mpi_comm(), group->mpi_comm())) continue;
      throw UsageError("gradients of this optimizer contain those of other ranks' losses, which a collective call of " +
                       std::to_string(group->size()) + " ranks has sent within backward, but its steps count the " +
                       "losses of " + std::to_string(counted.size()) +
                       " alone: set OptimizerOptions::loss_ranks to a communicator of all ranks of that call, on " +
                       "each of the optimizer's ranks");
    }
  }
}

/// Returns "the weight of 6 samples", or "the weight 1" if the unit is not agreed yet.
std::string StepWeights::text_of(double weight) const {
  if (unit_ == 0) return "the weight " + nlohmann::json(weight).dump();
  return "the weight of " + number_text(weight * unit_);
}

/// Throws the ArgumentError that explains why the step's number of samples does not fit the losses' numbers of samples.
void StepWeights::fail(const LossTotal& losses, double own) const {
  if (losses.mixed) {
    throw ArgumentError(
        "the losses of this step were weighed by two optimizers, or before and after a step of one, so a sample may "
        "count differently in each: call scale_loss() of one optimizer for all, before it steps");
  }
  if (unit_ == 0)
    throw ArgumentError("scale_loss() has weighed the losses of this step by their samples: call step(samples)");
  throw ArgumentError("the losses of this step came with the weight of " +
                      number_text(losses.unit > 0 ? losses.samples : scaled_samples_) +
                      " to scale_loss(), but the step counts " + text_of(own) + ": give both the same samples");
}

void StepWeights::forget() {
  scaled_samples_ = 0;
  loss_unit_.reset();
  weighed_before_ = samples_weighed();
  if (is_narrow_) unit_ = 0;  // (3): agreed in each step
}

}  // namespace mn
