#include <mn/optimizers/fused_sgd.hpp>

#include <algorithm>
#include <map>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/fused_check.hpp>
#include <mn/optimizers/step_groups.hpp>

namespace mn {
namespace {

/// The arguments of one call of libtorch's fused kernel. All tensors of a call have one device and one dtype. Either
/// all parameters are in their first step, or none is.
struct SgdLists {
  std::vector<at::Tensor> parameters, gradients, momenta;
};
using Key = std::tuple<c10::DeviceType, c10::DeviceIndex, at::ScalarType, bool>;

}  // namespace

at::Tensor FusedSgd::step(LossClosure closure) {
  std::size_t i = 0;
  at::Tensor loss = step_groups(*this, closure, [&, has_overflow = take_overflow()](auto& group) {
    step_group(group, rate_of(param_groups(), i++), has_overflow);
  });
  round_masters();
  return loss;
}

bool FusedSgd::can_skip() const {
  return std::ranges::all_of(param_groups(), [](const torch::optim::OptimizerParamGroup& group) {
    return static_cast<const torch::optim::SGDOptions&>(group.options()).dampening() == 0;
  });
}

std::vector<double> FusedSgd::constants() const {
  std::vector<double> all;
  for (const auto& group : param_groups()) {
    const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
    all.insert(all.end(),
               {options.weight_decay(), options.momentum(), options.dampening(), options.nesterov() ? 1.0 : 0.0});
  }
  return all;
}

/// Returns the parameter's momentum. It is undefined before the parameter's first step.
at::Tensor& FusedSgd::momentum_of(const at::Tensor& parameter) {
  auto& slot = state_[parameter.unsafeGetTensorImpl()];
  if (!slot) slot = std::make_unique<torch::optim::SGDParamState>();
  return static_cast<torch::optim::SGDParamState&>(*slot).momentum_buffer();
}

/// Adds rate × update to the parameter. If the parameter has 16 bits, `update` is float32, because for a 16-bit update
/// libtorch would round the rate to 16 bits, too.
void add_update(const at::Tensor& parameter, const at::Tensor& update, double rate) {
  if (parameter.scalar_type() == update.scalar_type()) {
    parameter.add_(update, rate);
  } else if (update.is_sparse()) {
    const at::Tensor rows = update.coalesce();
    c10::List<std::optional<at::Tensor>> indices;
    for (const at::Tensor& each : rows.indices().unbind(0)) indices.push_back(each);
    const at::Tensor values = parameter.index(indices).to(at::kFloat).add_(rows.values(), rate);
    parameter.index_put_(indices, values.to(parameter.scalar_type()));
  } else {
    parameter.copy_(parameter.to(at::kFloat).add_(update, rate));
  }
}

/// Updates a parameter with a sparse gradient, as libtorch does. For a 16-bit parameter computes in float32. If
/// `has_overflow` is defined, the host waits for the device to read it.
void FusedSgd::step_sparse(const at::Tensor& parameter, const torch::optim::SGDOptions& options, const Rate& rate,
                           const at::Tensor& has_overflow) {
  if (options.weight_decay() != 0) reject_sparse(parameter, "SGD with weight decay");
  if (has_master(parameter)) reject_sparse(parameter, "SGD with float32 masters");
  if (has_overflow.defined() && has_overflow.item<float>() != 0) return;
  // In 16 bits libtorch would round the factors, too: a momentum of 0.999 would become 1 in bfloat16. Therefore updates
  // of 16-bit parameters are computed in float32.
  const bool is_narrow = parameter.element_size() == 2;
  at::Tensor update = is_narrow ? parameter.grad().to(at::kFloat) : parameter.grad();
  if (options.momentum() != 0) {
    at::Tensor& momentum = momentum_of(parameter);
    if (is_narrow && momentum.defined()) momentum = momentum.to(at::kFloat);
    if (momentum.defined()) {
      momentum.mul_(options.momentum()).add_(update, 1 - options.dampening());
    } else {
      momentum = update.clone();
    }
    if (momentum.is_sparse()) momentum = momentum.coalesce();  // else each step would add the gradient's rows
    update = options.nesterov() ? update.add(momentum, options.momentum()) : momentum;
    if (is_narrow) momentum = momentum.to(parameter.scalar_type());
  }
  const auto* const number = std::get_if<double>(&rate);
  add_update(parameter, update, -(number != nullptr ? *number : std::get<at::Tensor>(rate).item<double>()));
}

void FusedSgd::step_group(torch::optim::OptimizerParamGroup& group, const Rate& rate, const at::Tensor& has_overflow) {
  const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
  std::map<Key, SgdLists> calls;
  for (const auto& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    if (parameter.grad().is_sparse()) {
      step_sparse(parameter, options, rate, has_overflow);
      continue;
    }
    const at::Tensor updated = to_update(parameter);
    at::Tensor momentum;
    bool is_first = false;
    if (options.momentum() != 0) {
      at::Tensor& buffer = momentum_of(parameter);
      is_first = !buffer.defined() && !has_overflow.defined();
      // In a first step the kernel overwrites the momentum's buffer with the gradient. A step that may be left out must
      // not count as a first step: the kernel then adds the gradient to a buffer of zeros.
      if (!buffer.defined()) buffer = has_overflow.defined() ? at::zeros_like(updated) : at::empty_like(updated);
      if (buffer.is_sparse()) buffer = buffer.to_dense();
      momentum = buffer;
    }
    // The kernel has one flag is_first_step for all its tensors; therefore parameters in their first step get a
    // separate call.
    SgdLists& lists = calls[{parameter.device().type(), parameter.device().index(), updated.scalar_type(), is_first}];
    lists.parameters.push_back(updated);
    lists.gradients.push_back(gradient_as_parameter(parameter));
    if (momentum.defined()) lists.momenta.push_back(momentum);
  }
  for (auto& [key, lists] : calls) {
    widen_gradients(lists.gradients, lists.parameters);
    WideCopies copies({&lists.parameters, &lists.gradients, &lists.momenta},
                      !is_right(FusedKernel::kSgd, lists.parameters.front()));
    const auto update = [&, is_first_step = std::get<3>(key), &lists = lists](const auto& lr) {
      at::_fused_sgd_(lists.parameters, lists.gradients, lists.momenta, options.weight_decay(), options.momentum(), lr,
                      options.dampening(), options.nesterov(), /*maximize=*/false, is_first_step, /*grad_scale=*/{},
                      has_overflow.defined() ? std::optional(has_overflow) : std::nullopt);
    };
    std::visit(update, rate);
    copies.write_back();
  }
}

}  // namespace mn
