// (1) The weighted loss is the first node that its backward runs. It notes the engine's task, and when the task ends,
//     the engine says so.
// (2) One backward at a time runs over the parameters of an optimizer, whatever threads the engine uses for it: what is
//     noted here is the process's.
#include <atomic>
#include <cmath>

#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <mn/core/error.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Engine;
using torch::autograd::variable_list;

std::atomic<bool> is_running = false;
WeightedBackward latest;  // written before is_running is set
std::atomic<bool> assumed_equal = false;

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
    latest = {latest.number + 1,
              {weight, context->saved_data["samples"].toDouble(),
               reinterpret_cast<const void*>(static_cast<std::intptr_t>(context->saved_data["weigher"].toInt()))}};
    is_running = true;
    Engine::get_default_engine().queue_callback([] { is_running = false; });  // at the end of backward
    return {gradients[0].mul(weight), {}};
  }
};

}  // namespace

at::Tensor weighted_loss(const at::Tensor& loss, const LossWeight& weight) { return WeightedLoss::apply(loss, weight); }
bool in_weighted_backward() noexcept { return is_running; }
void end_weighted_backward() noexcept { is_running = false; }
std::optional<WeightedBackward> weighted_backward() { return is_running ? std::optional(latest) : std::nullopt; }

void assume_equal_weights() noexcept { assumed_equal = true; }
bool take_assumed_equal_weights() noexcept { return assumed_equal.exchange(false); }

bool weigh_the_same(double own, double mean, double mean_square) noexcept {
  return std::abs(own - mean) <= 1e-5 * mean && mean_square - mean * mean <= 1e-4 * mean * mean;
}

void fail_assumed_weights() {
  throw ArgumentError(
      "the ranks weigh differently in a step, but collective calls within its backward did not know it: call "
      "optimizer->scale_loss(loss, samples).backward() before step(samples)");
}

}  // namespace mn
