// (1) The weighted loss is the first node that its backward runs. It notes the engine's task, and when the task ends,
//     the engine says so.
// (2) One backward at a time runs over the parameters of an optimizer, whatever threads the engine uses for it: what is
//     noted here is the process's.
#include <atomic>

#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Engine;
using torch::autograd::variable_list;

std::atomic<bool> is_running = false;
std::atomic<bool> assumed_equal = false;

class WeightedLoss : public torch::autograd::Function<WeightedLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& loss, double weight) {
    context->saved_data["weight"] = weight;
    return loss.mul(weight);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    is_running = true;
    Engine::get_default_engine().queue_callback([] { is_running = false; });  // at the end of backward
    return {gradients[0].mul(context->saved_data["weight"].toDouble()), {}};
  }
};

}  // namespace

at::Tensor weighted_loss(const at::Tensor& loss, double weight) { return WeightedLoss::apply(loss, weight); }
bool in_weighted_backward() noexcept { return is_running; }
void end_weighted_backward() noexcept { is_running = false; }

void assume_equal_weights() noexcept { assumed_equal = true; }
bool take_assumed_equal_weights() noexcept { return assumed_equal.exchange(false); }

}  // namespace mn
