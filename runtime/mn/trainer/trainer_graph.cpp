// An iteration whose work on the GPU is one CUDA graph (graphed_step.hpp).
//
// (1) The trainer keeps a recorded step's loss and metrics, whose tensors each launch overwrites. What was observed is
//     a copy of them.
// (2) Extensions see each iteration's loss, but not its autograd graph.
#include <algorithm>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/graphed_step.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

/// The tensors of a minibatch that a loss may read.
std::vector<at::Tensor*> tensors_of(Batch& batch) {
  std::vector<at::Tensor*> all = {&batch.data, &batch.target};
  for (BatchField& field : batch.fields) all.insert(all.end(), {&field.values, &field.offsets});
  std::erase_if(all, [](const at::Tensor* tensor) { return !tensor->defined(); });
  return all;
}

std::vector<double> numbers_of(const Batch& batch) {
  std::vector<double> all = {static_cast<double>(batch.samples), batch.loss_weight()};
  for (const BatchField& field : batch.fields) all.push_back(static_cast<double>(field.longest));
  return all;
}

/// Each tensor once: `data` and the first field are the same.
std::vector<at::Tensor> distinct(const std::vector<at::Tensor*>& tensors) {
  std::vector<at::Tensor> all;
  for (const at::Tensor* tensor : tensors) {
    const auto is_same = [&](const at::Tensor& other) { return other.is_same(*tensor); };
    if (std::ranges::none_of(all, is_same)) all.push_back(*tensor);
  }
  return all;
}

/// The minibatch with others in place of its distinct tensors.
Batch with_tensors(Batch batch, const std::vector<at::Tensor>& before, const std::vector<at::Tensor>& after) {
  batch.indices.clear();  // of this minibatch alone
  for (at::Tensor* tensor : tensors_of(batch)) {
    const auto found = std::ranges::find_if(before, [&](const at::Tensor& other) { return other.is_same(*tensor); });
    *tensor = after[static_cast<std::size_t>(found - before.begin())];
  }
  return batch;
}

}  // namespace

void Trainer::prepare_graph() {
  if (!options_.cuda_graph) return;
  if (update_) throw UsageError("there can be no CUDA graph of a program's own updates (TrainerOptions::cuda_graph)");
  if (options_.accumulate > 1)
    throw UsageError("there can be no CUDA graph of a step that accumulates minibatches (--cuda-graph)");
  graph_ = std::make_unique<GraphedStep>(optimizers_.front().optimizer);
}

void Trainer::train_by_graph() {
  Batch batch = next_batch();
  finish_copy();  // the update belongs to the graph
  const std::vector<at::Tensor> inputs = distinct(tensors_of(batch));
  static_cast<void>(graph_->run(inputs, numbers_of(batch), [&](const std::vector<at::Tensor>& given) {
    graph_->is_recording() ? record(with_tensors(batch, inputs, given)) : train_on(batch);
    return std::vector<at::Tensor>();
  }));
  if (!graph_->has_launched()) return;
  const Forward made = {recorded_->loss.value.clone(), recorded_->metrics.copied()};
  observe(batch, made);
  observation_->add_loss(made.loss.value, recorded_->weight);
  observe_update(batch.samples);
}

/// The whole step, which only enqueues.
void Trainer::record(const Batch& batch) {
  MultiNodeOptimizer& optimizer = this->optimizer();
  optimizer.zero_grad();
  Forward made = forward(batch);
  const double weight = made.loss.weight_in(batch);
  const at::Tensor weighted = optimizer.scale_loss(made.loss.value, weight);
  optimizer.announce_step(weight);
  weighted.backward();
  optimizer.step(weight);
  made.loss.value = made.loss.value.detach();
  recorded_ = std::make_unique<Recorded>(Recorded{std::move(made), weight});
}

}  // namespace mn
