#include <mn/optimizers/fused_adam.hpp>

#include <map>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>

#include <mn/optimizers/fused_check.hpp>
#include <mn/optimizers/gradient_values.hpp>
#include <mn/optimizers/step_groups.hpp>

namespace mn {
namespace {

using torch::optim::Optimizer;

struct AdamKernel {
  static constexpr FusedKernel kind = FusedKernel::kAdam;
  void operator()(auto&&... arguments) const { at::_fused_adam_(arguments...); }
};
struct AdamWKernel {
  static constexpr FusedKernel kind = FusedKernel::kAdamW;
  void operator()(auto&&... arguments) const { at::_fused_adamw_(arguments...); }
};

/// The arguments of one call of the kernel: tensors of one device and dtype.
struct AdamLists {
  std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps;
};

/// The inputs of a step that lie on the device.
struct StepInputs {
  at::Tensor has_overflow;  // as in SkipsOverflows::skip_if()
  StepCounts* counts;       // null: the host counts steps
};

StepInputs begin_step(StepCounts& counts, const at::Tensor& has_overflow, bool is_on_device) {
  counts.begin_step();
  return {has_overflow, has_overflow.defined() || is_on_device ? &counts : nullptr};
}

/// Calls libtorch's kernel for some parameters of a group.
template <class Options, class Kernel>
void update(AdamLists& lists, const Options& options, const Rate& rate, const std::optional<at::Tensor>& has_overflow,
            const Kernel& kernel) {
  const auto [beta1, beta2] = options.betas();
  WideCopies copies({&lists.parameters, &lists.gradients, &lists.exp_avgs, &lists.exp_avg_sqs, &lists.max_exp_avg_sqs},
                    !is_right(Kernel::kind, lists.parameters.front()));
  const auto call = [&, beta1 = beta1, beta2 = beta2](const auto& lr) {
    kernel(lists.parameters, lists.gradients, lists.exp_avgs, lists.exp_avg_sqs, lists.max_exp_avg_sqs, lists.steps, lr,
           beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad(), /*maximize=*/false,
           /*grad_scale=*/std::optional<at::Tensor>(), has_overflow);
  };
  std::visit(call, rate);
  copies.write_back();
}

/// Updates each device and dtype of a group.
template <class Options, class State, class Kernel>
void step_group(Optimizer& optimizer, torch::optim::OptimizerParamGroup& group, const Rate& rate,
                const StepInputs& on_device, const Kernel& kernel) {
  const auto& options = static_cast<const Options&>(group.options());
  std::map<std::pair<std::string, at::ScalarType>, AdamLists> calls;
  std::map<std::pair<std::string, std::int64_t>, at::Tensor> step_tensors;  // most parameters have the same count
  for (const auto& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    reject_sparse(parameter, "Adam");
    auto& state = adam_state<State>(optimizer, parameter, options.amsgrad());
    state.step(state.step() + 1);
    const std::string device = parameter.device().str();
    at::Tensor step;
    if (on_device.counts != nullptr) {
      step = on_device.counts->before_step(parameter, state.step() - 1);
    } else {
      at::Tensor& shared = step_tensors[{device, state.step()}];
      const auto there = at::TensorOptions(at::kFloat).device(parameter.device());
      if (!shared.defined()) shared = at::full({}, state.step(), there);
      step = shared;
    }
    AdamLists& lists = calls[{device, parameter.scalar_type()}];
    lists.parameters.push_back(parameter);
    lists.gradients.push_back(gradient_as_parameter(parameter));
    lists.exp_avgs.push_back(state.exp_avg());
    lists.exp_avg_sqs.push_back(state.exp_avg_sq());
    if (options.amsgrad()) lists.max_exp_avg_sqs.push_back(state.max_exp_avg_sq());
    lists.steps.push_back(step);
  }
  for (auto& [key, lists] : calls) {
    if (on_device.counts != nullptr) at::_foreach_add_(lists.steps, 1);
    if (!on_device.has_overflow.defined()) {
      update(lists, options, rate, std::nullopt, kernel);
      continue;
    }
    update(lists, options, rate, on_device.has_overflow, kernel);
    const std::vector<at::Tensor> left_out(lists.steps.size(), on_device.has_overflow.reshape({}));
    at::_foreach_sub_(lists.steps, left_out);
  }
}

/// Updates all groups; group i has rate(i).
template <class Options, class State, class RateOf, class Kernel>
at::Tensor step_all(Optimizer& optimizer, const Optimizer::LossClosure& closure, const StepInputs& on_device,
                    const RateOf& rate, const Kernel& kernel) {
  std::size_t i = 0;
  return step_groups(optimizer, closure,
                     [&](auto& group) { step_group<Options, State>(optimizer, group, rate(i++), on_device, kernel); });
}

template <class State>
void count_replayed(Optimizer& optimizer, StepCounts& counts) {
  counts.count_replay([&](c10::TensorImpl* parameter, std::int64_t count) {
    static_cast<State&>(*optimizer.state().at(parameter)).step(count);
  });
}

template <class Options>
std::vector<double> constants_of(const Optimizer& optimizer) {
  std::vector<double> all;
  for (const auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    const auto [beta1, beta2] = options.betas();
    all.insert(all.end(), {beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad() ? 1.0 : 0.0});
  }
  return all;
}

template <class State>
void settle_counts(Optimizer& optimizer, StepCounts& counts) {
  counts.settle([&](c10::TensorImpl* parameter, std::int64_t count) {
    const auto found = optimizer.state().find(parameter);
    if (found != optimizer.state().end()) static_cast<State&>(*found->second).step(count);
  });
}

}  // namespace

at::Tensor FusedAdam::step(LossClosure closure) {
  const auto rate = [this](std::size_t i) { return rate_of(param_groups(), i); };
  return step_all<torch::optim::AdamOptions, torch::optim::AdamParamState>(
      *this, closure, begin_step(counts_, take_overflow(), is_on_device()), rate, AdamKernel());
}

void FusedAdam::settle() { settle_counts<torch::optim::AdamParamState>(*this, counts_); }

void FusedAdam::count_replay() { count_replayed<torch::optim::AdamParamState>(*this, counts_); }

std::vector<double> FusedAdam::constants() const { return constants_of<torch::optim::AdamOptions>(*this); }

at::Tensor FusedAdamW::step(LossClosure closure) {
  const auto rate = [this](std::size_t i) { return rate_of(param_groups(), i); };
  return step_all<torch::optim::AdamWOptions, torch::optim::AdamWParamState>(
      *this, closure, begin_step(counts_, take_overflow(), is_on_device()), rate, AdamWKernel());
}

void FusedAdamW::settle() { settle_counts<torch::optim::AdamWParamState>(*this, counts_); }

void FusedAdamW::count_replay() { count_replayed<torch::optim::AdamWParamState>(*this, counts_); }

std::vector<double> FusedAdamW::constants() const { return constants_of<torch::optim::AdamWOptions>(*this); }

}  // namespace mn
