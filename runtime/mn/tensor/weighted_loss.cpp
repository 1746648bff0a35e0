// (1) A weighted loss is a node that its backward runs before all that the loss depends on. It notes the engine's task,
//     and when the task ends, the engine says so. Of a backward that threw the next one finds another task's.
// (2) One backward at a time runs over the parameters of an optimizer, whatever threads the engine uses for it: what is
//     noted here is the process's.
#include <atomic>
#include <cmath>
#include <mutex>

#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <mn/core/error.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Engine;
using torch::autograd::variable_list;

std::mutex mutex;
std::shared_ptr<std::vector<LossWeight>> running;  // null: no weighted backward
int running_task = -1;
std::atomic<bool> assumed_equal = false;

void note(const LossWeight& loss) {
  const std::lock_guard lock(mutex);
  const int task = torch::autograd::get_current_graph_task_id();
  if (!running || running_task != task) {
    running = std::make_shared<std::vector<LossWeight>>();
    running_task = task;
    Engine::get_default_engine().queue_callback(end_weighted_backward);  // at the end of backward
  }
  running->push_back(loss);
}

class WeightedLoss : public torch::autograd::Function<WeightedLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& loss, const LossWeight& weight) {
    context->saved_data["weight"] = weight.weight;
    context->saved_data["samples"] = weight.samples;
    context->saved_data["weigher"] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(weight.weigher));
    return loss.mul(weight.weight);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const double weight = context->saved_data["weight"].toDouble();
    note({weight, context->saved_data["samples"].toDouble(),
          reinterpret_cast<const void*>(static_cast<std::intptr_t>(context->saved_data["weigher"].toInt()))});
    return {gradients[0].mul(weight), {}};
  }
};

}  // namespace

at::Tensor weighted_loss(const at::Tensor& loss, const LossWeight& weight) { return WeightedLoss::apply(loss, weight); }
WeightedBackward weighted_backward() {
  const std::lock_guard lock(mutex);
  return running;
}
bool in_weighted_backward() { return weighted_backward() != nullptr; }
void end_weighted_backward() {
  const std::lock_guard lock(mutex);
  running.reset();
}

void assume_equal_weights() noexcept { assumed_equal = true; }
bool take_assumed_equal_weights() noexcept { return assumed_equal.exchange(false); }

bool weighs_as_mean(double own, double mean) noexcept { return std::abs(own - mean) <= 1e-5 * mean; }

void fail_assumed_weights() {
  throw ArgumentError(
      "the ranks weigh differently in a step, but collective calls within its backward did not know it: call "
      "optimizer->scale_loss(loss, samples).backward() before step(samples)");
}

}  // namespace mn
