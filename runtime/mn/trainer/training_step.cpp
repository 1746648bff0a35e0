#include <mn/trainer/training_step.hpp>

#include <algorithm>
#include <cassert>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>
#include <mn/core/trace.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/graphed_step.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/phase_end.hpp>

namespace mn {
namespace {

std::vector<at::Tensor*> tensors_of(Batch& batch) {
  std::vector<at::Tensor*> all = {&batch.data, &batch.target};
  for (BatchField& field : batch.fields) all.insert(all.end(), {&field.values, &field.offsets});
  std::erase_if(all, [](const at::Tensor* tensor) { return !tensor->defined(); });
  return all;
}

/// Returns the tensors of a minibatch, each tensor once, because `data` and the first field may be the same tensor.
std::vector<at::Tensor> distinct_tensors(Batch batch) {
  std::vector<at::Tensor> distinct;
  for (const at::Tensor* tensor : tensors_of(batch)) {
    const auto is_same = [&](const at::Tensor& other) { return other.is_same(*tensor); };
    if (std::ranges::none_of(distinct, is_same)) distinct.push_back(*tensor);
  }
  return distinct;
}

std::vector<double> numbers_of(const Batch& batch) {
  std::vector<double> all = {static_cast<double>(batch.samples), batch.loss_weight()};
  for (const BatchField& field : batch.fields) all.push_back(static_cast<double>(field.longest));
  return all;
}

/// Returns a copy of `batch` in which after[i] takes the place of before[i]. `before` is the result of
/// distinct_tensors(batch).
Batch with_tensors(Batch batch, const std::vector<at::Tensor>& before, const std::vector<at::Tensor>& after) {
  batch.indices.clear();  // the numbers belong to the samples of the original minibatch
  for (at::Tensor* tensor : tensors_of(batch)) {
    const auto found = std::ranges::find_if(before, [&](const at::Tensor& other) { return other.is_same(*tensor); });
    *tensor = after[static_cast<std::size_t>(found - before.begin())];
  }
  return batch;
}

}  // namespace

TrainingStep::TrainingStep(const TrainingParts& parts, StepProgram program, const TrainerOptions& options,
                           NextBatch next_batch, AfterForward after_forward)
    : parts_(parts),
      program_(std::move(program)),
      trace_(options.trace),
      next_batch_(std::move(next_batch)),
      after_forward_(std::move(after_forward)) {
  if (options.cuda_graph == CudaGraph::kOff) return;
  const std::shared_ptr<MultiNodeOptimizer>& optimizer = parts_.optimizers.front().optimizer;
  const char* const why = program_.update         ? "the program makes its own updates"
                          : parts_.accumulate > 1 ? "a step accumulates the gradients of several minibatches"
                                                  : GraphedStep::why_no_graph(*optimizer);
  const bool is_optional = options.cuda_graph == CudaGraph::kAuto;
  if (why == nullptr) {
    graph_ = std::make_unique<GraphedStep>(optimizer, is_optional);
  } else if (!is_optional) {
    throw UsageError(std::string("there can be no CUDA graph of a step (--cuda-graph on): ") + why);
  }
}

TrainingStep::~TrainingStep() = default;

void TrainingStep::run() {
  program_.update ? run_program_update() : graph_ ? run_graph() : run_minibatches(next_batch_());
}

void TrainingStep::run_program_update() {
  const Batch batch = next_batch_();
  Summary metrics;
  program_.update(batch, metrics);
  add_values(metrics);
  parts_.observation.add_samples(batch.samples);
}

/// Runs an iteration whose first minibatch is `batch`.
void TrainingStep::run_minibatches(Batch batch) {
  optimizer().zero_grad();
  Accumulated all;
  for (std::int64_t done = 1;; ++done) {
    const auto epoch_end = static_cast<double>(parts_.counters.epoch + 1);
    const bool is_last = done == parts_.accumulate || parts_.iterator.epoch_detail() >= epoch_end;
    accumulate(batch, all, is_last);
    if (is_last) break;
    batch = next_batch_();
  }
  optimizer().step(all.weight);
  observe_update(all.samples);
}

void TrainingStep::run_graph() {
  const Batch batch = next_batch_();
  const std::vector<at::Tensor> inputs = distinct_tensors(batch);
  static_cast<void>(graph_->run(inputs, numbers_of(batch), [&](const std::vector<at::Tensor>& graph_inputs) {
    graph_->is_recording() ? record(with_tensors(batch, inputs, graph_inputs)) : run_minibatches(batch);
    return std::vector<at::Tensor>();
  }));
  if (!graph_->has_launched()) return;
  assert(recorded_);
  const ForwardResult result = {Loss(recorded_->loss.value.clone(), recorded_->weight),  // invariant 4: a copy
                                recorded_->metrics.copied()};
  observe(batch, result);
  observe_update(batch.samples);
}

/// Makes a whole step while the graph records it. Nothing is computed.
void TrainingStep::record(const Batch& batch) {
  optimizer().zero_grad();
  ForwardResult result = forward(batch);
  const double weight = result.loss.weight_in(batch);
  const at::Tensor weighted = optimizer().scale_loss(result.loss.value, weight);
  optimizer().announce_step(weight);
  weighted.backward();
  optimizer().step(weight);
  result.loss.value = result.loss.value.detach();
  recorded_ = RecordedResult{std::move(result), weight};
}

void TrainingStep::observe_update(std::int64_t samples) {
  parts_.observation.add_samples(samples);
  const GradScaler* const scaler = optimizer().scaler();
  if (scaler == nullptr) return;
  parts_.observation.report("loss_scale", scaler->scale());
  parts_.observation.report("skipped_steps", static_cast<double>(scaler->skipped()));
}

void TrainingStep::accumulate(const Batch& batch, Accumulated& all, bool is_last) {
  const auto result = loss_calls_.run(batch.samples, &parts_.comm, "training", parts_.counters.epoch + 1,
                                      [&] { return forward(batch); });
  if (!result) return;  // invariant 2: this rank steps with weight 0
  const at::Tensor& loss = result->loss.value;
  const double weight = result->loss.weight_in(batch);
  observe(batch, *result);
  all.samples += batch.samples;
  all.weight += weight;
  if (weight == 0 && !loss_calls_.any()) return;  // the loss is a mean over 0 items, and may be NaN
  const Trace::Scope scope(trace_.get(), "backward", Trace::Lane::kCompute);
  const auto more_follow = is_last ? nullptr : optimizer().no_sync();
  const at::Tensor weighted = optimizer().scale_loss(loss, weight, parts_.accumulate);  // invariant 1: weighted
  if (is_last) optimizer().announce_step(all.weight);
  weighted.backward();
  end_phase(trace_.get(), parts_.comm.device());
}

TrainingStep::ForwardResult TrainingStep::forward(const Batch& batch) {
  const Trace::Scope scope(trace_.get(), "forward", Trace::Lane::kCompute);
  Summary metrics;
  Loss loss = program_.compute_loss(batch, metrics);
  if (!loss.value.defined() || loss.value.numel() != 1) {
    throw ArgumentError("the loss function must return a tensor of one element");
  }
  end_phase(trace_.get(), parts_.comm.device());
  return {std::move(loss), std::move(metrics)};
}

void TrainingStep::observe(const Batch& batch, const ForwardResult& result) {
  const double weight = result.loss.weight_in(batch);
  after_forward_(result.loss.value, weight != 0, result.metrics);
  Summary values = result.metrics;
  values.add("loss", result.loss.value, weight);
  add_values(values);
}

void TrainingStep::add_values(const Summary& values) {
  parts_.observation.add(values);
  parts_.extensions.observe_all(values);
}

}  // namespace mn
