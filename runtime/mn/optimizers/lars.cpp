#include <mn/optimizers/lars.hpp>

#include <algorithm>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/fused_check.hpp>
#include <mn/optimizers/gradient_values.hpp>
#include <mn/optimizers/step_groups.hpp>
#include <mn/sharding/pieces.hpp>

namespace mn {
namespace {

/// Returns for each parameter its learning rate divided by the plain rate, as a scalar on the parameter's device; 1 if
/// the norm of the parameter or of its gradient is 0 (2). `own` are the optimizer's parameters, of which `parameters`
/// may be copies.
std::vector<at::Tensor> trust_ratios(at::TensorList parameters, at::TensorList gradients, double trust,
                                     double weight_decay, at::TensorList own) {
  // All norms stay on the device; therefore the host does not wait for them.
  at::Tensor norms = at::stack({at::stack(at::_foreach_norm(parameters)), at::stack(at::_foreach_norm(gradients))});
  make_whole_norms(norms, own);
  const at::Tensor w = norms[0], g = norms[1];
  const at::Tensor ratio = trust * w / (g + weight_decay * w);
  return at::where((w > 0).logical_and(g > 0), ratio, at::ones_like(ratio)).unbind();
}

}  // namespace

Lars::Lars(std::vector<at::Tensor> parameters, const torch::optim::SGDOptions& options, double trust)
    : Lars(std::vector<torch::optim::OptimizerParamGroup>{torch::optim::OptimizerParamGroup(std::move(parameters))},
           options, trust) {}

Lars::Lars(std::vector<torch::optim::OptimizerParamGroup> groups, const torch::optim::SGDOptions& options, double trust)
    : SGD(std::move(groups), options), trust_(trust) {
  if (!(trust > 0)) throw ArgumentError("the trust coefficient of LARS must be > 0, got " + std::to_string(trust));
  if (options.nesterov() || options.dampening() != 0) {
    throw ArgumentError("LARS supports neither Nesterov momentum nor dampening");
  }
}

at::Tensor Lars::step(LossClosure closure) {
  return step_groups(*this, closure, [this](auto& group) { step_group(group); });
}

at::Tensor Lars::momentum_of(const at::Tensor& parameter) {
  auto& slot = state_[parameter.unsafeGetTensorImpl()];
  if (!slot) {
    auto fresh = std::make_unique<torch::optim::SGDParamState>();
    fresh->momentum_buffer(at::zeros_like(parameter));
    slot = std::move(fresh);
  }
  return static_cast<torch::optim::SGDParamState&>(*slot).momentum_buffer();
}

void Lars::step_group(torch::optim::OptimizerParamGroup& group) {
  const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
  std::vector<at::Tensor> parameters, updates, momenta;
  // Weights (two dimensions or more) come first in the lists, because only weights have adapted rates and weight decay
  // (invariant 1).
  std::size_t weights = 0;
  for (const bool is_weight : {true, false}) {
    for (const auto& parameter : group.params()) {
      if (!parameter.grad().defined() || (dimensions_of(parameter) >= 2) != is_weight) continue;
      reject_sparse(parameter, "LARS");
      parameters.push_back(parameter);
      updates.push_back(parameter.grad());
      momenta.push_back(momentum_of(parameter));
    }
    if (is_weight) weights = parameters.size();
  }
  if (parameters.empty()) return;
  const std::vector<at::Tensor> own(parameters.begin(), parameters.begin() + static_cast<std::ptrdiff_t>(weights));
  WideCopies copies({&parameters, &updates, &momenta});  // float16 cannot hold the squares of weights
  if (weights > 0) {
    const at::TensorList adapted(parameters.data(), weights);
    const at::TensorList gradients(updates.data(), weights);
    auto decayed = at::_foreach_add(gradients, adapted, options.weight_decay());
    at::_foreach_mul_(decayed, trust_ratios(adapted, gradients, trust_, options.weight_decay(), own));
    std::ranges::move(decayed, updates.begin());
  }
  // Invariant 3: the rate is already a factor of the momentum. Therefore the parameters are updated by the momentum
  // itself.
  at::_foreach_mul_(momenta, options.momentum());
  at::_foreach_add_(momenta, updates, options.lr());
  at::_foreach_sub_(parameters, momenta);
  copies.write_back();
}

}  // namespace mn
