// One iteration: minibatches → losses → gradients → update.
//
// (1) The gradients of an iteration's minibatches add up to that of the mean loss over all their samples, or over what
//     they weigh.
// (2) A rank without samples steps with weight 0: every rank makes the same collective calls.
// (3) No loss is read here, which would wait for the device.
#include <algorithm>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/error.hpp>
#include <mn/core/trace.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/tensor/device_times.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/periodic_agreement.hpp>
#include <mn/trainer/phase_end.hpp>
#include <mn/trainer/straggler_watch.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

void add_to(StepTimes& sum, const StepTimes& step) {
  sum.data_s += step.data_s;
  sum.compute_s += step.compute_s;
  sum.communication_s += step.communication_s;
  sum.bytes += step.bytes;
}

}  // namespace

Batch Trainer::next_batch() {
  const Trace::Scope scope(options_.trace.get(), "wait for data", Trace::Lane::kData);
  // The first may wait until files are open, and for loaders of the program's own.
  const ActivityScope activity("waiting for a minibatch");
  const auto begin = Clock::now();
  if (work_) work_->end();
  std::optional<Batch> batch = iterator_->next();
  if (work_) work_->begin();
  last_step_.data_s += seconds_since(begin);
  if (!batch) {
    throw DataError("epoch " + std::to_string(epoch_ + 1) + " of training has no minibatch left after " +
                        std::to_string(epoch_detail_) + " epochs: the dataset is empty or shorter than it says",
                    true);
  }
  return *std::move(batch);
}

bool Trainer::at_epoch_end() const { return iterator_->epoch_detail() >= static_cast<double>(epoch_ + 1); }

void Trainer::advance() {
  const auto begin = Clock::now();
  const double waited_before = work_ ? 0 : communication_s();
  const std::uint64_t bytes_before = bytes_sent();
  last_step_.data_s = 0;
  update_ ? update_parameters() : graph_ ? train_by_graph() : train();
  ++iteration_;
  previous_epoch_detail_ = epoch_detail_;
  epoch_detail_ = iterator_->epoch_detail();
  if (at_epoch_end()) end_epoch();
  if (work_) work_->end();
  const double step_s = seconds_since(begin);
  last_step_.communication_s = work_ ? 0 : communication_s() - waited_before;
  last_step_.compute_s = step_s - last_step_.data_s - last_step_.communication_s;
  last_step_.bytes = bytes_sent() - bytes_before;
  add_to(all_steps_, last_step_);
  observation_->add_time(step_s);
  // Without a wait for each step the host's times say nothing of a device's.
  if (comm_->device().type == DeviceType::kCpu || options_.trace) {
    stragglers_->add(last_step_.data_s, last_step_.compute_s);
  }
}

void Trainer::end_epoch() {
  ++epoch_;
  if (iterator_->next())
    throw Error("the training iterator continues after the end of epoch " + std::to_string(epoch_));
  synchronize();
}

void Trainer::synchronize() {
  finish_copy();  // double buffering may have an update left
  for (const auto& [name, optimizer] : optimizers_) optimizer->synchronize();
}

StepTimes Trainer::times() const {
  StepTimes all = all_steps_;
  if (work_) {
    all.communication_s = communication_s();
    all.compute_s = std::max(0.0, work_->seconds() - all.communication_s);
  }
  return all;
}

double Trainer::communication_s() const {
  double sum = 0;
  for (const auto& [name, optimizer] : optimizers_) sum += optimizer->communication_s();
  return sum;
}

std::uint64_t Trainer::bytes_sent() const {
  std::uint64_t sum = 0;
  for (const auto& [name, optimizer] : optimizers_) sum += optimizer->bytes_sent();
  return sum;
}

void Trainer::update_parameters() {
  const Batch batch = next_batch();
  finish_copy();
  Summary metrics;
  update_(batch, metrics);
  observation_->add_metrics(metrics);
  observation_->add_samples(batch.samples);
}

void Trainer::train() {
  optimizer().zero_grad();
  Accumulated all;
  for (std::int64_t done = 1;; ++done) {
    const Batch batch = next_batch();
    const bool last = done == options_.accumulate || at_epoch_end();
    accumulate(batch, all, last);
    if (last) break;
  }
  finish_copy();
  update(all);
}

/// The iteration of one minibatch.
void Trainer::train_on(const Batch& batch) {
  optimizer().zero_grad();
  Accumulated all;
  accumulate(batch, all, /*last=*/true);
  update(all);
}

void Trainer::update(const Accumulated& all) {
  optimizer().step(all.weight);
  observe_update(all.samples);
}

void Trainer::observe_update(std::int64_t samples) {
  observation_->add_samples(samples);
  if (const GradScaler* scaler = optimizer().scaler()) observation_->report("loss_scale", scaler->scale());
}

void Trainer::accumulate(const Batch& batch, Accumulated& all, bool last) {
  const auto made = loss_calls_.run(batch.samples, comm_.get(), "training", epoch_ + 1, [&] { return forward(batch); });
  if (!made) return;
  const at::Tensor& loss = made->loss.value;
  const double weight = made->loss.weight_in(batch);
  observe(batch, *made);
  all.samples += batch.samples;
  all.weight += weight;
  observation_->add_loss(loss, weight);
  if (weight == 0 && !loss_calls_.any()) return;  // a mean over nothing
  const Trace::Scope scope(options_.trace.get(), "backward", Trace::Lane::kCompute);
  const auto more_follow = last ? nullptr : optimizer().no_sync();
  const at::Tensor weighted = optimizer().scale_loss(loss, weight, options_.accumulate);
  if (last) optimizer().announce_step(all.weight);
  weighted.backward();
  end_phase(options_.trace.get(), comm_->device());
}

Trainer::Forward Trainer::forward(const Batch& batch) {
  const Trace::Scope scope(options_.trace.get(), "forward", Trace::Lane::kCompute);
  Summary metrics;
  const auto versions = [&] {
    std::uint64_t sum = 0;
    for (const at::Tensor& parameter : parameters_of(*model_)) sum += version_of(parameter);
    return sum;
  };
  const std::uint64_t before = loss_changes_parameters_ ? 0 : versions();
  Loss loss = compute_loss_(batch, metrics);
  if (!loss_changes_parameters_) loss_changes_parameters_ = versions() != before;
  if (!loss.value.defined() || loss.value.numel() != 1) {
    throw ArgumentError("the loss function must return a tensor of one element");
  }
  end_phase(options_.trace.get(), comm_->device());
  return {std::move(loss), std::move(metrics)};
}

void Trainer::observe(const Batch& batch, const Forward& made) {
  const at::Tensor& loss = made.loss.value;
  if (made.loss.weight_in(batch) != 0) extensions_->after_forward(*this, loss);  // a mean over nothing is NaN
  extensions_->observe(loss, made.metrics);
  observation_->add_metrics(made.metrics);
}

}  // namespace mn
