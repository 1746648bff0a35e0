#include <mn/optimizers/lamb.hpp>

#include <cmath>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/fused_check.hpp>
#include <mn/optimizers/gradient_values.hpp>
#include <mn/optimizers/step_groups.hpp>
#include <mn/sharding/pieces.hpp>

namespace mn {
namespace {

/// Returns for each weight w the ratio ‖w‖ / ‖step‖, as a scalar on the weight's device. The ratio is 1 if either norm
/// is 0 (invariant 2). `parameters` are the optimizer's parameters of the weights, which may be copies.
std::vector<at::Tensor> norm_ratios(at::TensorList weights, at::TensorList steps, at::TensorList parameters) {
  // All norms stay on the device; therefore the host does not wait for them.
  at::Tensor norms = at::stack({at::stack(at::_foreach_norm(weights)), at::stack(at::_foreach_norm(steps))});
  make_whole_norms(norms, parameters);
  const at::Tensor w = norms[0], s = norms[1];
  return at::where((w > 0).logical_and(s > 0), w / s, at::ones_like(w)).unbind();
}

}  // namespace

Lamb::Lamb(std::vector<at::Tensor> parameters, const torch::optim::AdamWOptions& options)
    : Lamb(std::vector<torch::optim::OptimizerParamGroup>{torch::optim::OptimizerParamGroup(std::move(parameters))},
           options) {}

Lamb::Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, const torch::optim::AdamWOptions& options)
    : AdamW(std::move(groups), options) {
  if (options.amsgrad()) throw ArgumentError("LAMB does not support AMSGrad");
}

at::Tensor Lamb::step(LossClosure closure) {
  return step_groups(*this, closure, [this](auto& group) { step_group(group); });
}

void Lamb::step_group(torch::optim::OptimizerParamGroup& group) {
  const auto& options = static_cast<const torch::optim::AdamWOptions&>(group.options());
  const auto [beta1, beta2] = options.betas();
  std::vector<at::Tensor> parameters, gradients, firsts, seconds;
  std::vector<at::Scalar> first_corrections, second_corrections;
  // Weights (two dimensions or more) come first in the lists, because only weights have adapted rates and weight decay
  // (invariant 1).
  std::size_t weights = 0;
  for (const bool is_weight : {true, false}) {
    for (const auto& parameter : group.params()) {
      if (!parameter.grad().defined() || (dimensions_of(parameter) >= 2) != is_weight) continue;
      reject_sparse(parameter, "LAMB");
      auto& moments = adam_state<torch::optim::AdamWParamState>(*this, parameter, parameter, /*amsgrad=*/false);
      moments.step(moments.step() + 1);
      parameters.push_back(parameter);
      gradients.push_back(parameter.grad());
      firsts.push_back(moments.exp_avg());
      seconds.push_back(moments.exp_avg_sq());
      const auto count = static_cast<double>(moments.step());
      first_corrections.emplace_back(1 - std::pow(beta1, count));
      // Adam's correction for the first steps is applied to √v, not to v: v stays uncorrected, as in checkpoints of
      // torch::optim::AdamW.
      second_corrections.emplace_back(std::sqrt(1 - std::pow(beta2, count)));
    }
    if (is_weight) weights = parameters.size();
  }
  if (parameters.empty()) return;
  const std::vector<at::Tensor> own(parameters.begin(), parameters.begin() + static_cast<std::ptrdiff_t>(weights));
  WideCopies copies({&parameters, &gradients, &firsts, &seconds});  // eps would be 0 in float16
  at::_foreach_lerp_(firsts, gradients, 1 - beta1);
  at::_foreach_mul_(seconds, beta2);
  at::_foreach_addcmul_(seconds, gradients, gradients, 1 - beta2);
  auto roots = at::_foreach_sqrt(seconds);
  at::_foreach_div_(roots, second_corrections);
  at::_foreach_add_(roots, options.eps());
  auto steps = at::_foreach_div(firsts, first_corrections);
  at::_foreach_div_(steps, roots);
  if (weights > 0) {
    const at::TensorList adapted(parameters.data(), weights);
    const at::TensorList updates(steps.data(), weights);
    // The weight decay is added to the steps before norms are compared, because LAMB compares the weight's norm with
    // the norm of the sum of step and decay.
    at::_foreach_add_(updates, adapted, options.weight_decay());
    at::_foreach_mul_(updates, norm_ratios(adapted, updates, own));
  }
  at::_foreach_sub_(parameters, steps, options.lr());
  copies.write_back();
}

}  // namespace mn
