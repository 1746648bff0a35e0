/// Helpers of mn's optimizers: a loop over the groups of parameters, Adam's state for a parameter, and gradients with
/// the strides that kernels need. Not for programs.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/optimizer.h>

#include <mn/core/error.hpp>

namespace mn {

/// Calls the closure, if there is one. Then calls step_group(group) for each group, with gradient mode off. Returns the
/// closure's loss.
template <class StepGroup>
at::Tensor step_groups(torch::optim::Optimizer& optimizer, const torch::optim::Optimizer::LossClosure& closure,
                       const StepGroup& step_group) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  const at::NoGradGuard no_grad;
  for (auto& group : optimizer.param_groups()) step_group(group);
  return loss;
}

/// Makes a parameter's moments as torch::optim::Adam and AdamW make them, so that checkpoints load into either
/// optimizer. The moments have the type and strides of `updated`, the tensor that updates change.
template <class State>
State& adam_state(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, const at::Tensor& updated,
                  bool amsgrad) {
  auto& slot = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!slot) {
    auto fresh = std::make_unique<State>();
    fresh->step(0);
    fresh->exp_avg(at::zeros_like(updated));
    fresh->exp_avg_sq(at::zeros_like(updated));
    if (amsgrad) fresh->max_exp_avg_sq(at::zeros_like(updated));
    slot = std::move(fresh);
  }
  return static_cast<State&>(*slot);
}

/// Returns a parameter's gradient with the strides of the parameter. Fused kernels need the same strides for both,
/// because they run through memory without computing indices. Throws ArgumentError if the parameter's memory has gaps.
inline at::Tensor gradient_as_parameter(const at::Tensor& parameter) {
  if (!parameter.is_non_overlapping_and_dense()) {
    throw ArgumentError(
        "a fused optimizer updates whole blocks of memory, but a parameter is part of a larger tensor: make it "
        "contiguous, or use torch's own optimizer");
  }
  const at::Tensor& gradient = parameter.grad();
  if (gradient.strides() == parameter.strides()) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

}  // namespace mn
