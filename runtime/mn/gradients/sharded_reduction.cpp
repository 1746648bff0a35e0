#include <mn/gradients/sharded_reduction.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <mn/core/error.hpp>
#include <mn/tensor/factor.hpp>
#include <mn/tensor/mean_numbers.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
ShardedReduction::ShardedReduction(std::shared_ptr<ShardedParameters> shards, std::shared_ptr<Communicator> comm,
                                   std::shared_ptr<GradientAverager> averager, const StepWeights& weights,
                                   const OptimizerOptions& options)
    : GradientReduction(std::move(comm), std::move(averager)),
      shards_(std::move(shards)),
      weights_(weights),
      keeps_(options.shard.what == Shard::kOptimizer || options.shard.keep_gradients),
      blocks_(!gains_from_background(*shards_->ranks().group)),
      in_step_(blocks_ && options.shard.what == Shard::kOptimizer),
      has_(shards_->parameters().size()),
      parts_(has_.size(), 0),
      parts_expected_(has_.size(), 1) {
  // The gradient buffer only watches backwards and has no memory: gradients go to the units' buffers.
  gradients_.emplace(shards_->parameters(), SparseGradients::Flags(), *comm_, GradientWatch::Depth::kOff,
                     std::span<const std::size_t>(), DeviceSamples::ChangeNote(), /*moves=*/false);
  for (const auto& unit : shards_->units()) {
    units_.emplace_back(unit->layout(), unit->share().options(), shards_->ranks());
  }
  train_only(std::vector<bool>(has_.size(), true));
  shards_->reduce_by([this] { launch(unit_of_launch(launched_)); });
  hooks_.emplace(shards_->parameters(), [this](std::size_t i) {
    arrived(i);  // after the buffer's hooks
    launch_complete();
  });
}

ShardedReduction::~ShardedReduction() = default;

void ShardedReduction::train_only(const std::vector<bool>& parameters) {
  gradients_->train_only(parameters);
  is_trained_ = parameters;
  for (Unit& unit : units_) unit.wait();
  launched_ = 0;  // rounds in the old order are complete
  expect_parts();
  order_.clear();
  for (std::size_t unit = units_.size(); unit-- > 0;) {
    if (units_[unit].expected > 0) order_.push_back(unit);
  }
  make_buffers();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    // A backward before the ranks' agreement made the gradients. The step reduces the gradients on all ranks.
    if (shards_->parameters()[i].grad().defined()) arrived(i);
  }
}

/// (8): a buffer for each unit whose reduction waits for the step, otherwise for two units: backward fills one buffer,
/// and the other is reduced.
void ShardedReduction::make_buffers() {
  std::vector<std::size_t> sizes;
  for (const std::size_t unit : order_) {
    const ShardedUnit& own = *shards_->units()[unit];
    sizes.push_back(static_cast<std::size_t>(own.layout().size()) * own.share().element_size());
  }
  if (!in_step_ && !sizes.empty()) sizes.assign(2, std::ranges::max(sizes));
  buffers_.reset();
  buffers_.emplace(*shards_->ranks().group, sizes);
}

/// (6): the next step expects as many parts of each gradient as a backward of this step has made.
void ShardedReduction::expect_parts() {
  std::size_t backwards = 0;  // the gradient with the fewest parts has one part of each backward
  for (const std::size_t parts : parts_) {
    if (parts > 0) backwards = backwards == 0 ? parts : std::min(backwards, parts);
  }
  for (Unit& unit : units_) unit.expected = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i] > 0) parts_expected_[i] = parts_[i] / backwards;
    if (is_trained_[i]) units_[shards_->place(i).unit].expected += parts_expected_[i];
  }
}

void ShardedReduction::clear() {
  gradients_->clear();
  agree_on_rounds();  // after backwards without a step
  begin_step();
}

void ShardedReduction::begin_step() {
  for (Unit& unit : units_) {
    unit.wait();
    unit.drop();
    unit.arrivals = 0;
  }
  expect_parts();
  has_.assign(has_.size(), false);
  parts_.assign(parts_.size(), 0);
  launched_ = 0;
  factor_.reset();
  find_weight_ = nullptr;
  if (comm_->device().type != DeviceType::kCpu) stream_ = current_stream(comm_->device());
}

/// On a device, makes the step's stream wait for the gradient's stream, and returns the step's stream. Otherwise
/// returns no value.
std::optional<c10::Stream> ShardedReduction::stream_for(const at::Tensor& gradient) {
  if (!stream_ || *stream_ == current_stream(comm_->device())) return stream_;
  c10::Event made(stream_->device_type());
  made.record(current_stream(comm_->device()));
  made.block(*stream_);
  gradient.record_stream(*stream_);
  return stream_;
}

/// Takes the gradient that a backward has made for parameter i.
void ShardedReduction::arrived(std::size_t i) {
  const at::NoGradGuard no_grad;
  if (!is_trained_[i]) return;  // train_only() takes the gradient later
  at::Tensor gradient = std::exchange(shards_->parameters()[i].mutable_grad(), {});
  if (!gradient.defined()) return;
  if (gradient.requires_grad()) {
    throw UsageError("the gradient of " + tensor_name(shards_->parameters()[i], i) +
                     " has a graph (create_graph), which sharded gradients cannot keep: train without --shard");
  }
  const c10::OptionalStreamGuard guard(stream_for(gradient));
  const auto [number, place] = shards_->place(i);
  Unit& unit = units_[number];
  unit.add(place, gradient.is_sparse() ? gradient.to_dense() : gradient, *buffers_);
  has_[i] = true;
  if (keeps_ && paused()) return;  // (5)
  ++parts_[i];
  ++unit.arrivals;
}

void ShardedReduction::scale(double factor) {
  if (launched_ > 0) {
    throw UsageError(
        "scale_gradients() comes too late, because backward has reduced sharded gradients: multiply the loss instead, "
        "before scale_loss()");
  }
  multiply(factor);
}

void ShardedReduction::multiply(double factor) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : shards_->parameters()) {  // gradients that wait for train_only()
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(exact_factor(factor));
  }
  for (Unit& unit : units_) unit.multiply(factor);
}

/// (4): true if the factor of this rank's gradients is known.
bool ShardedReduction::may_launch() {
  if (factor_) return true;
  const auto announced = find_weight_ ? find_weight_() : std::nullopt;
  factor_ = announced ? std::optional(announced->factor) : weights_.factor_so_far(gradients_->watch());
  return factor_.has_value();
}

void ShardedReduction::launch_complete() {
  if (in_step_ || order_.empty() || (keeps_ && launched_ >= order_.size())) return;  // (8), (3)
  for (;;) {
    const Unit& next = unit_of_launch(launched_);
    if (next.arrivals < next.expected || !may_launch()) return;
    shards_->reduce_in_turn();
    if (keeps_ && launched_ == order_.size()) return;
  }
}

/// Begins the reduction of a unit's gradients, or of zeros.
void ShardedReduction::launch(Unit& unit) {
  if (launched_ > 0) unit_of_launch(launched_ - 1).end_scatter();  // at most one is under way
  const bool takes = unit.has_gradients() && may_launch();
  averager().count_bytes(unit.begin(takes, factor_.value_or(1), *buffers_, in_step_));
  unit.arrivals = 0;
  ++launched_;
  if (blocks_) unit.end_scatter();  // the buffer is free for the next unit
}

/// The rounds that this rank needs to reduce all gradients.
std::size_t ShardedReduction::rounds_needed() const {
  std::size_t launches = launched_;
  for (std::size_t k = 0; k < order_.size(); ++k) {
    if (!factor_ || !units_[order_[k]].has_gradients()) continue;
    const std::size_t next = launched_ + (k + order_.size() - launched_ % order_.size()) % order_.size();
    launches = std::max(launches, next + 1);
  }
  return (launches + order_.size() - 1) / order_.size();
}

/// (2): makes the rounds that any rank needs.
void ShardedReduction::agree_on_rounds() {
  if (order_.empty()) return;
  auto rounds = static_cast<std::int64_t>(rounds_needed());
  comm_->allreduce(std::span(&rounds, 1), ReduceOp::kMax);
  while (launched_ < static_cast<std::size_t>(rounds) * order_.size()) launch(unit_of_launch(launched_));
}

StepAgreement ShardedReduction::agree(const StepWeight& weight, bool has_fault) {
  StepAgreement agreement(weight, has_.size(), {.fault = has_fault});
  for (std::size_t i = 0; i < has_.size(); ++i) {
    if (has_[i]) agreement.add(i);
  }
  if (gradients_->take_set_change()) agreement.add_set_change();
  const auto count = static_cast<std::int64_t>(StepAgreement::tail_count(has_.size(), *comm_));
  const at::Tensor tail = at::empty({count}, numbers_dtype(shards_->parameters()));
  agreement.write(tail);
  if (tail.numel() > 0) comm_->allreduce(buffer_view(tail), ReduceOp::kAverage);
  agreement.agree(*comm_);
  agreement.read(tail);
  return agreement;
}

ReductionResult ShardedReduction::reduce(const StepWeight& weight, bool has_fault) {
  // A rank without a weight has no samples, or announces a new parameter set: the rank keeps the gradients.
  const bool reduced_wrongly = weight.own != 0 && factor_ && *factor_ != weight.factor;
  if (weight.own != 0 && !factor_) factor_ = weight.factor;
  agree_on_rounds();
  const StepAgreement agreement = agree(weight, has_fault || reduced_wrongly);
  for (Unit& unit : units_) unit.wait();
  const double divisor = without_rounding(agreement.divisor(), numbers_dtype(shards_->parameters()));
  const ReductionResult result = {.has_mean = divisor != 0,
                                  .any_fault = agreement.any_fault(),
                                  .set_changes = agreement.any_set_change(),
                                  .misweighed = agreement.misweighed(divisor)};
  const at::NoGradGuard no_grad;
  for (Unit& unit : units_) {
    at::Tensor& share = unit.share();
    if (share.defined() && divisor != 1 && result.has_mean) share.mul_(exact_factor(1 / divisor));
  }
  if (!result.has_mean) return result;  // the gradients stay for the step after a change of the parameter set
  move_to_host();
  give_pieces(agreement);
  begin_step();
  return result;
}

/// Copies the shares of the mean to the host if the pieces lie on the host. The host waits once for all copies.
void ShardedReduction::move_to_host() {
  if (shards_->units().empty() || !shards_->units().front()->is_on_host()) return;
  for (Unit& unit : units_) {
    at::Tensor& share = unit.share();
    if (!share.defined()) continue;
    const auto options = share.options().device(at::kCPU).pinned_memory(true);
    share = at::empty(share.sizes(), options).copy_(share, /*non_blocking=*/true);
  }
  current_stream(comm_->device()).synchronize();
}

/// The mean becomes the gradient of this rank's pieces. A gradient that no rank has stays None. The gradients are not
/// views, because torch::optim::Optimizer::zero_grad() cannot detach views.
void ShardedReduction::give_pieces(const StepAgreement& agreement) {
  for (std::size_t i = 0; i < has_.size(); ++i) {
    const auto [unit, number] = shards_->place(i);
    const UnitLayout::Piece piece = shards_->units()[unit]->layout().piece(number, shards_->ranks().group->rank());
    shards_->pieces()[i].mutable_grad() = is_trained_[i] && agreement.has(i)
                                              ? units_[unit].share().narrow(0, piece.place, piece.size()).detach()
                                              : at::Tensor();
  }
}

}  // namespace mn
