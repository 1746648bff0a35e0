#include <mn/trainer/local_sgd.hpp>

#include <map>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include <mn/tensor/factor.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

std::string velocity_name(std::size_t i) { return "velocity." + std::to_string(i); }

}  // namespace

LocalSgd::LocalSgd(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm, std::int64_t steps,
                   double outer_momentum, std::shared_ptr<Trace> trace)
    : parameters_(std::move(parameters)),
      comm_(std::move(comm)),
      period_(steps),
      outer_momentum_(outer_momentum),
      trace_(std::move(trace)) {
  if (outer_momentum_ > 0) {
    for (const auto& parameter : parameters_) velocity_.push_back(at::zeros_like(parameter));
  }
  lay_out();
}

void LocalSgd::average_also(std::vector<AveragedBuffer> buffers) {
  buffers_ = std::move(buffers);
  std::vector<at::Tensor> tensors;
  for (const auto& each : buffers_) tensors.push_back(each.buffer);
  // The buffers must be equal on all ranks now, because each average changes them by the same amount on all ranks.
  comm_->broadcast_data(tensors);
  lay_out();
}

void LocalSgd::lay_out() {
  std::vector<at::Tensor> all = parameters_;
  for (const auto& each : buffers_) all.push_back(each.buffer);
  // Four elements at the end of change_ hold the weight and the flags, so that one reduction also averages these.
  anchor_.emplace(all, 0, *comm_);
  change_.emplace(all, 4, *comm_);
  restart();
}

void LocalSgd::restart() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) anchor_->view(i).copy_(parameters_[i]);
  for (std::size_t i = 0; i < buffers_.size(); ++i) anchor_->view(parameters_.size() + i).copy_(buffers_[i].buffer);
  steps_ = 0;
  weight_ = 0;
  assumed_equal_ = false;
}

ReductionResult LocalSgd::step(const StepWeight& weight) {
  weight_ += weight.own;
  assumed_equal_ = assumed_equal_ || weight.assumed_equal;
  return ++steps_ >= period_ ? average(/*set_changes=*/false) : ReductionResult();
}

ReductionResult LocalSgd::synchronize() { return steps_ > 0 ? average(/*set_changes=*/false) : ReductionResult(); }

ReductionResult LocalSgd::average(bool set_changes) {
  const at::NoGradGuard no_grad;
  // Invariant 2: a rank's change is weighted by the rank's samples, that is, by the mean weight of the rank's steps.
  const double weight = steps_ > 0 ? weight_ / static_cast<double>(steps_) : 0;
  fill_change(weight);
  change_->tail()[1].fill_(set_changes ? 1 : 0);
  change_->tail()[2].fill_(assumed_equal_ ? 1 : 0);
  change_->tail()[3].fill_(weight != 1 ? 1 : 0);
  reduce_change();
  const at::Tensor agreed = change_->tail().cpu().to(at::kDouble);
  const double* const numbers = agreed.const_data_ptr<double>();
  const double mean = change_->without_rounding(numbers[0]);
  const ReductionResult result = {.has_mean = mean != 0,
                                  .any_fault = numbers[2] != 0 && numbers[3] != 0,
                                  .set_changes = numbers[1] != 0,
                                  .misweighed = assumed_equal_ && !weighs_as_mean(weight, mean)};
  move_to_mean(mean);
  restart();
  return result;
}

/// Sets change_ to the change of parameters and buffers since the last average, times `weight`. Changes are averaged
/// instead of parameters, because changes are small, and small numbers lose less by rounding.
void LocalSgd::fill_change(double weight) {
  const auto fill = [&](std::size_t i, const at::Tensor& value) {
    at::Tensor change = change_->view(i);
    at::sub_out(change, value, anchor_->view(i));
  };
  for (std::size_t i = 0; i < parameters_.size(); ++i) fill(i, parameters_[i]);
  for (std::size_t i = 0; i < buffers_.size(); ++i) fill(parameters_.size() + i, buffers_[i].buffer);
  add_squared_means(buffers_, changes_of_buffers());  // invariant 4: adds d² to each variance
  change_->tail().fill_(1);
  if (weight != 1) change_->scale(weight);
}

void LocalSgd::reduce_change() {
  Trace::Scope scope(trace_.get(), "average parameters", Trace::Lane::kCommunication);
  const auto names = comm_->debug() ? change_->names(0, change_->messages().size()) : std::vector<std::string>();
  comm_->sum_gradients(on_current_stream(change_->messages()), 1.0 / comm_->size(), names);
  scope.set_bytes(change_->bytes());
  if (comm_->size() > 1) bytes_sent_ += change_->bytes();
}

void LocalSgd::move_to_mean(double mean_weight) {
  if (mean_weight == 0) return;  // no rank had a sample
  if (mean_weight != 1) change_->scale(1 / mean_weight);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // The parameters move by the mean change. With momentum (SlowMo), they move by a velocity that sums up the mean
    // changes.
    at::Tensor move = change_->view(i);
    if (!velocity_.empty()) move = velocity_[i].mul_(exact_factor(outer_momentum_)).add_(move);
    parameters_[i].copy_(anchor_->view(i).add_(move));
  }
  subtract_squared_means(buffers_, changes_of_buffers());
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::size_t k = parameters_.size() + i;
    at::Tensor mean = anchor_->view(k).add_(change_->view(k));
    if (buffers_[i].mean) mean.clamp_min_(0);  // rounding may make a variance negative
    buffers_[i].buffer.copy_(mean);
  }
}

std::vector<at::Tensor> LocalSgd::changes_of_buffers() const {
  std::vector<at::Tensor> changes;
  for (std::size_t i = 0; i < buffers_.size(); ++i) changes.push_back(change_->view(parameters_.size() + i));
  return changes;
}

NamedTensors LocalSgd::state() const {
  NamedTensors state;
  if (comm_->rank() != 0) return state;
  for (std::size_t i = 0; i < velocity_.size(); ++i) state.emplace_back(velocity_name(i), velocity_[i]);
  return state;
}

void LocalSgd::load_state(const NamedTensors& state) {
  const std::map<std::string, at::Tensor> tensors(state.begin(), state.end());
  for (std::size_t i = 0; i < velocity_.size(); ++i) {
    if (const auto found = tensors.find(velocity_name(i)); found != tensors.end()) {
      const at::NoGradGuard no_grad;
      velocity_[i].copy_(found->second);
    }
  }
  comm_->broadcast_data(velocity_);
}

}  // namespace mn
