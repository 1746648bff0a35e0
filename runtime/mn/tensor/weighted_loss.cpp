#include <mn/tensor/weighted_loss.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <span>
#include <utility>

#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <mn/core/error.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Engine;
using torch::autograd::variable_list;

std::mutex mutex;
std::shared_ptr<const BackwardRecord> running;  // null: no backward pass has made an entry
SamplesByOwner weighed;

/// Changes the record of the running backward pass: applies `change` to a copy, which replaces the record, because a
/// record is immutable. If `own` is true and the record belongs to another task of autograd, a new record begins
/// instead. If `own` is false, a record of any task is continued, for instance of an enclosing backward pass.
template <class Change>
void change_record(bool own, const Change& change) {
  const std::lock_guard lock(mutex);
  const int task = torch::autograd::get_current_graph_task_id();
  const bool goes_on = running && (!own || running->task == task);
  if (!goes_on) Engine::get_default_engine().queue_callback(end_backward_record);  // called at the end of the pass
  BackwardRecord record = goes_on ? *running : BackwardRecord{.task = task};
  change(record);
  running = std::make_shared<BackwardRecord>(std::move(record));
}

class WeightedLoss : public torch::autograd::Function<WeightedLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& loss, const LossWeight& weight) {
    context->saved_data["samples"] = weight.samples;
    context->saved_data["unit"] = c10::IValue::make_capsule(weight.shared_unit);
    context->saved_data["groups"] = c10::IValue::make_capsule(c10::make_intrusive<Groups>(marked_groups(loss)));
    context->saved_data["agreed_unit"] = weight.agreed_unit;
    context->saved_data["agreed"] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(weight.agreed));
    context->saved_data["owner"] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(weight.owner));
    return loss.mul(weight.weight());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto unit = c10::static_intrusive_pointer_cast<LossUnit>(context->saved_data["unit"].toCapsule());
    const auto groups = c10::static_intrusive_pointer_cast<Groups>(context->saved_data["groups"].toCapsule());
    agree_on_unit(*unit, groups->all);
    const LossWeight loss{
        context->saved_data["samples"].toDouble(),
        unit->samples(),
        unit,
        context->saved_data["agreed_unit"].toDouble(),
        reinterpret_cast<const void*>(static_cast<std::intptr_t>(context->saved_data["agreed"].toInt())),
        reinterpret_cast<const void*>(static_cast<std::intptr_t>(context->saved_data["owner"].toInt()))};
    change_record(true, [&](BackwardRecord& record) {
      record.losses.push_back(loss);
      if (const auto found = weighed.find(loss.owner); found != weighed.end()) found->second.begun += loss.samples;
    });
    return {gradients[0].mul(loss.weight()), {}};
  }

 private:
  struct Groups : torch::CustomClassHolder {
    explicit Groups(std::vector<std::shared_ptr<Communicator>> given) : all(std::move(given)) {}
    std::vector<std::shared_ptr<Communicator>> all;
  };

  /// Collective over each group: raises the calling rank's unit to the largest unit of any rank in the groups.
  static void agree_on_unit(LossUnit& unit, const std::vector<std::shared_ptr<Communicator>>& groups) {
    double most = unit.samples();
    for (const auto& group : groups) group->allreduce(std::span(&most, 1), ReduceOp::kMax);
    const auto record = backward_record();
    const bool has_begun = record && record->task == torch::autograd::get_current_graph_task_id() &&
                           !record->losses.empty();  // a loss of this pass has begun with the old unit
    if (most > unit.samples() && !has_begun) unit.rise_to(most);
  }
};

class ScaledLoss : public torch::autograd::Function<ScaledLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& loss, std::int64_t scaler, bool is_second) {
    context->saved_data["scaler"] = scaler;
    context->saved_data["is_second"] = is_second;
    return loss.view_as(loss);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto scaler = static_cast<std::intptr_t>(context->saved_data["scaler"].toInt());
    const LossScale scale{reinterpret_cast<const void*>(scaler), context->saved_data["is_second"].toBool()};
    change_record(true, [&](BackwardRecord& record) { record.scales.push_back(scale); });
    return {gradients[0], {}, {}};
  }
};

/// True if a ScaledLoss is among the last operations of the loss's graph.
bool is_scaled(const at::Tensor& loss) {
  constexpr std::size_t kMaxOperations = 64;  // keeps forward passes cheap; a scale is near the end
  std::vector<torch::autograd::Node*> nodes = {loss.grad_fn().get()};
  for (std::size_t i = 0; i < nodes.size() && i < kMaxOperations; ++i) {
    if (nodes[i] == nullptr) continue;
    if (dynamic_cast<torch::autograd::CppNode<ScaledLoss>*>(nodes[i]) != nullptr) return true;
    for (const auto& edge : nodes[i]->next_edges()) nodes.push_back(edge.function.get());
  }
  return false;
}

}  // namespace

at::Tensor scaled_loss(const at::Tensor& loss, const void* scaler) {
  return ScaledLoss::apply(loss, static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(scaler)), is_scaled(loss));
}
at::Tensor weighted_loss(const at::Tensor& loss, const LossWeight& weight) {
  {
    const std::lock_guard lock(mutex);
    weighed[weight.owner].made += weight.samples;
  }
  return WeightedLoss::apply(loss, weight);
}
std::shared_ptr<const BackwardRecord> backward_record() {
  const std::lock_guard lock(mutex);
  return running;
}
void begin_backward_record() {
  change_record(false, [](BackwardRecord&) {});
}
void end_backward_record() {
  const std::lock_guard lock(mutex);
  running.reset();
}
SamplesByOwner samples_weighed() {
  const std::lock_guard lock(mutex);
  return weighed;
}

void forget_samples_weighed(const void* owner) {
  const std::lock_guard lock(mutex);
  weighed.erase(owner);
}

std::optional<double> pass_gradients_over(const std::shared_ptr<Communicator>& group) {
  std::optional<double> unit;
  change_record(false, [&](BackwardRecord& record) {
    if (std::ranges::find(record.groups, group) == record.groups.end()) record.groups.push_back(group);
    if (record.losses.empty()) return;
    const LossWeight& loss = record.losses.back();
    unit = loss.agreed == group.get() ? loss.unit / loss.agreed_unit : loss.unit;
  });
  return unit;
}

void assume_equal_weights() {
  change_record(false, [](BackwardRecord& record) { record.assumed_equal = true; });
}

bool weighs_as_mean(double own, double mean) noexcept { return std::abs(own - mean) <= 1e-5 * mean; }

void fail_assumed_weights() {
  throw ArgumentError(
      "the ranks weigh differently in a step, but collective calls within its backward did not know it: call "
      "optimizer->scale_loss(loss, samples).backward() before step(samples)");
}

}  // namespace mn
