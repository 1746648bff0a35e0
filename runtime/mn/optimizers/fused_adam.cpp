#include <mn/optimizers/fused_adam.hpp>

#include <map>
#include <string>
#include <type_traits>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <mn/optimizers/fused_check.hpp>
#include <mn/optimizers/gradient_values.hpp>
#include <mn/optimizers/step_groups.hpp>

namespace mn {
namespace {

/// The arguments of one call of libtorch's fused kernel. All tensors of a call have the same device and dtype.
struct AdamLists {
  std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps;
};

/// Updates those parameters of a group that have one device and one dtype, by one call of libtorch's fused kernel.
template <class Options>
void update(AdamLists& lists, const Options& options, const Rate& rate, const std::optional<at::Tensor>& has_overflow) {
  constexpr bool kIsAdamW = std::is_same_v<Options, torch::optim::AdamWOptions>;
  const auto kernel = [](auto&&... arguments) {
    if constexpr (kIsAdamW) {
      at::_fused_adamw_(arguments...);
    } else {
      at::_fused_adam_(arguments...);
    }
  };
  const auto [beta1, beta2] = options.betas();
  WideCopies copies({&lists.parameters, &lists.gradients, &lists.exp_avgs, &lists.exp_avg_sqs, &lists.max_exp_avg_sqs},
                    !is_right(kIsAdamW ? FusedKernel::kAdamW : FusedKernel::kAdam, lists.parameters.front()));
  const auto call = [&, beta1 = beta1, beta2 = beta2](const auto& lr) {
    kernel(lists.parameters, lists.gradients, lists.exp_avgs, lists.exp_avg_sqs, lists.max_exp_avg_sqs, lists.steps, lr,
           beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad(), /*maximize=*/false,
           /*grad_scale=*/std::optional<at::Tensor>(), has_overflow);
  };
  std::visit(call, rate);
  copies.write_back();
}

}  // namespace

template <class TorchAdam, class TorchOptions, class TorchState>
at::Tensor FusedAdamOf<TorchAdam, TorchOptions, TorchState>::step(torch::optim::Optimizer::LossClosure closure) {
  ++steps_;
  std::size_t i = 0;
  at::Tensor loss = step_groups(*this, closure, [&, has_overflow = take_overflow()](auto& group) {
    step_group(group, rate_of(this->param_groups(), i++), has_overflow);
  });
  round_masters();
  return loss;
}

/// Updates the parameters of a group, with one call of the fused kernel for each device and dtype.
template <class TorchAdam, class TorchOptions, class TorchState>
void FusedAdamOf<TorchAdam, TorchOptions, TorchState>::step_group(torch::optim::OptimizerParamGroup& group,
                                                                  const Rate& rate, const at::Tensor& has_overflow) {
  const auto& options = static_cast<const TorchOptions&>(group.options());
  const bool device_counts = has_overflow.defined() || is_on_device();
  std::map<std::pair<std::string, at::ScalarType>, AdamLists> calls;
  std::map<std::pair<std::string, std::int64_t>, at::Tensor> step_tensors;  // shared: most parameters have one count
  for (const auto& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    reject_sparse(parameter, "Adam");
    const at::Tensor updated = to_update(parameter);
    auto& state = adam_state<TorchState>(*this, parameter, updated, options.amsgrad());
    state.step(state.step() + 1);
    const std::string device = parameter.device().str();
    AdamLists& lists = calls[{device, updated.scalar_type()}];
    lists.parameters.push_back(updated);
    lists.gradients.push_back(gradient_as_parameter(parameter));
    lists.exp_avgs.push_back(state.exp_avg());
    lists.exp_avg_sqs.push_back(state.exp_avg_sq());
    if (options.amsgrad()) lists.max_exp_avg_sqs.push_back(state.max_exp_avg_sq());
    if (device_counts) {
      lists.steps.push_back(count_before(parameter, state.step() - 1));
      continue;
    }
    at::Tensor& shared = step_tensors[{device, state.step()}];
    const auto there = at::TensorOptions(at::kFloat).device(parameter.device());
    if (!shared.defined()) shared = at::full({}, state.step(), there);
    lists.steps.push_back(shared);
  }
  for (auto& [key, lists] : calls) {
    if (device_counts) at::_foreach_add_(lists.steps, 1);
    widen_gradients(lists.gradients, lists.parameters);
    update(lists, options, rate, has_overflow.defined() ? std::optional(has_overflow) : std::nullopt);
    if (!has_overflow.defined()) continue;
    const std::vector<at::Tensor> left_out(lists.steps.size(), has_overflow.reshape({}));
    at::_foreach_sub_(lists.steps, left_out);
  }
}

/// Returns the parameter's count of steps as a tensor on its device. `count` is the count on the host. Neither count
/// includes the coming step: the caller adds 1 to the count on the device.
template <class TorchAdam, class TorchOptions, class TorchState>
at::Tensor FusedAdamOf<TorchAdam, TorchOptions, TorchState>::count_before(const at::Tensor& parameter,
                                                                          std::int64_t count) {
  Count& known = counts_[parameter.unsafeGetTensorImpl()];
  // After a checkpoint was loaded, the count on the device may differ from the count on the host. Then a new tensor is
  // made.
  if (!known.on_device.defined() || known.on_host != count) {
    known.on_device = at::full({}, count, at::TensorOptions(at::kFloat).device(parameter.device()));
  }
  known.on_host = count + 1;
  known.last_step = steps_;
  return known.on_device;
}

template <class TorchAdam, class TorchOptions, class TorchState>
void FusedAdamOf<TorchAdam, TorchOptions, TorchState>::settle() {
  if (counts_.empty()) return;
  std::vector<at::Tensor> counts;
  for (const auto& [parameter, count] : counts_) counts.push_back(count.on_device);
  const at::Tensor on_host = at::stack(counts).cpu();
  const float* next = on_host.const_data_ptr<float>();
  for (auto& [parameter, count] : counts_) {
    count.on_host = static_cast<std::int64_t>(*next++);
    const auto found = this->state().find(parameter);
    if (found != this->state().end()) static_cast<TorchState&>(*found->second).step(count.on_host);
  }
}

template <class TorchAdam, class TorchOptions, class TorchState>
void FusedAdamOf<TorchAdam, TorchOptions, TorchState>::keep_captured() {
  for (auto& [parameter, count] : counts_) count.is_in_graph = count.last_step == steps_;
}

template <class TorchAdam, class TorchOptions, class TorchState>
void FusedAdamOf<TorchAdam, TorchOptions, TorchState>::count_replay() {
  for (auto& [parameter, count] : counts_) {
    if (count.is_in_graph) static_cast<TorchState&>(*this->state().at(parameter)).step(++count.on_host);
  }
}

template <class TorchAdam, class TorchOptions, class TorchState>
std::vector<double> FusedAdamOf<TorchAdam, TorchOptions, TorchState>::constants() const {
  std::vector<double> all;
  for (const auto& group : this->param_groups()) {
    const auto& options = static_cast<const TorchOptions&>(group.options());
    const auto [beta1, beta2] = options.betas();
    all.insert(all.end(), {beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad() ? 1.0 : 0.0});
  }
  return all;
}

template class FusedAdamOf<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>;
template class FusedAdamOf<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>;

}  // namespace mn
