#include <algorithm>
#include <map>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/optimizers/step_groups.hpp>

namespace mn {
namespace {

/// The arguments of one call of the kernel: tensors of one device and dtype, in their first step or none of them.
struct SgdLists {
  std::vector<at::Tensor> parameters, gradients, momenta;
};
using Key = std::tuple<c10::DeviceType, c10::DeviceIndex, at::ScalarType, bool>;

}  // namespace

at::Tensor FusedSgd::step(LossClosure closure) {
  std::size_t i = 0;
  return step_groups(*this, closure, [&, found = take_found()](auto& group) {
    step_group(group, rate_of(param_groups(), i++), found);
  });
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

void FusedSgd::step_group(torch::optim::OptimizerParamGroup& group, const Rate& rate, const at::Tensor& found) {
  const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
  std::map<Key, SgdLists> calls;
  for (const auto& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    if (parameter.grad().is_sparse())
      throw ArgumentError("a fused SGD rejects sparse gradients: use torch::optim::SGD");
    at::Tensor momentum;
    bool is_first = false;
    if (options.momentum() != 0) {
      auto& slot = state_[parameter.unsafeGetTensorImpl()];
      is_first = !slot;
      if (is_first) {
        auto fresh = std::make_unique<torch::optim::SGDParamState>();
        // The first step fills it with the gradient; one that may be left out adds it to nothing, which is the same.
        fresh->momentum_buffer(found.defined() ? at::zeros_like(parameter) : at::empty_like(parameter));
        is_first = !found.defined();
        slot = std::move(fresh);
      }
      momentum = static_cast<torch::optim::SGDParamState&>(*slot).momentum_buffer();
    }
    const c10::Device device = parameter.device();
    // One flag of the kernel says for all its tensors whether the gradient becomes the momentum as it is.
    SgdLists& lists = calls[{device.type(), device.index(), parameter.scalar_type(), is_first}];
    lists.parameters.push_back(parameter);
    lists.gradients.push_back(gradient_as_parameter(parameter));
    if (momentum.defined()) lists.momenta.push_back(momentum);
  }
  for (auto& [key, lists] : calls) {
    const auto update = [&, is_first_step = std::get<3>(key), &lists = lists](const auto& lr) {
      at::_fused_sgd_(lists.parameters, lists.gradients, lists.momenta, options.weight_decay(), options.momentum(), lr,
                      options.dampening(), options.nesterov(), /*maximize=*/false, is_first_step, /*grad_scale=*/{},
                      found.defined() ? std::optional(found) : std::nullopt);
    };
    std::visit(update, rate);
  }
}

}  // namespace mn
