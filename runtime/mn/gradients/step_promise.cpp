#include <mn/gradients/step_promise.hpp>

#include <utility>

#include <torch/csrc/autograd/graph_task.h>

#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

void StepPromise::announce(Weight weight) {
  is_announced_ = true;
  find_weight_ = std::move(weight);
}

void StepPromise::watch_backward(std::size_t i, const GradientBuffer& gradients) {
  if (!is_announced_) return;
  if (find_weight_) weight_ = std::exchange(find_weight_, nullptr)();
  const int task = torch::autograd::get_current_graph_task_id();
  runs_inner_backwards_ =
      runs_inner_backwards_ || task_.value_or(task) != task;  // invariant 1: an inner backward has its own task
  task_ = task;
  twice_ = twice_ || (gradients.weighed_early() && gradients.is_ready(i) && !gradients.is_outside(i));
}

std::optional<double> StepPromise::binding() const {
  if (!has_looked_ || runs_inner_backwards_ || !weight_) return std::nullopt;
  return weight_->factor;
}

void StepPromise::check(const StepWeight& weight, const GradientBuffer& gradients, std::size_t given_away) const {
  const bool relied_on = given_away > 0 || gradients.weighed_early();
  if (relied_on && (weight.factor != weight_->factor || weight.own != weight_->own))
    fail("the step counts other samples");
  if (twice_) fail("a second backward came after that one");
  for (std::size_t m = 0; m < given_away; ++m) {
    const std::size_t i = *gradients.flat().parameter_of(m);
    if (gradients.unchanged_since_ready(i)) continue;
    fail("the gradient of " + tensor_name(gradients.parameters()[i], i) + " changed after that backward");
  }
}

void StepPromise::keep() {
  has_looked_ = has_looked_ || task_;  // invariant 1: a backward has run in an announced step
  forget();
}

void StepPromise::forget() {
  is_announced_ = false;
  find_weight_ = nullptr;
  weight_.reset();
  task_.reset();
  twice_ = false;
}

void StepPromise::fail(const std::string& what) {
  throw UsageError("announce_step() promised that one backward and then the step follow, but " + what +
                   ": announce only the last backward of a step");
}

}  // namespace mn
