#include <map>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/step_groups.hpp>

namespace mn {
namespace {

using torch::optim::Optimizer;

/// The arguments of one call of the kernel: tensors of one device and dtype.
struct AdamLists {
  std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps;
};

/// What a step is told of overflows: `found` as SkipsOverflows has it, and then counts on the device.
struct Overflow {
  at::Tensor found;
  StepCounts& counts;
};

/// Calls kernel(lists, options, found) for each device and dtype of a group.
template <class Options, class State, class Kernel>
void step_group(Optimizer& optimizer, torch::optim::OptimizerParamGroup& group, const Overflow& overflow,
                const Kernel& kernel) {
  const auto& options = static_cast<const Options&>(group.options());
  std::map<std::pair<std::string, at::ScalarType>, AdamLists> calls;
  std::map<std::pair<std::string, std::int64_t>, at::Tensor> step_tensors;  // most parameters have the same count
  for (const auto& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    if (parameter.grad().is_sparse())
      throw ArgumentError("a fused Adam rejects sparse gradients: use torch::optim::SGD");
    auto& state = adam_state<State>(optimizer, parameter, options.amsgrad());
    state.step(state.step() + 1);
    const std::string device = parameter.device().str();
    at::Tensor step;
    if (overflow.found.defined()) {
      step = overflow.counts.before_step(parameter, state.step() - 1);
    } else {
      at::Tensor& shared = step_tensors[{device, state.step()}];
      const auto on_device = at::TensorOptions(at::kFloat).device(parameter.device());
      if (!shared.defined()) shared = at::full({}, state.step(), on_device);
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
    if (!overflow.found.defined()) {
      kernel(lists, options, std::nullopt);
      continue;
    }
    at::_foreach_add_(lists.steps, 1);
    kernel(lists, options, overflow.found);
    const std::vector<at::Tensor> left_out(lists.steps.size(), overflow.found.reshape({}));
    at::_foreach_sub_(lists.steps, left_out);
  }
}

template <class Options, class State, class Kernel>
at::Tensor step_all(Optimizer& optimizer, const Optimizer::LossClosure& closure, const Overflow& overflow,
                    const Kernel& kernel) {
  return step_groups(optimizer, closure,
                     [&](auto& group) { step_group<Options, State>(optimizer, group, overflow, kernel); });
}

template <class State>
void settle_counts(Optimizer& optimizer, StepCounts& counts) {
  counts.settle([&](c10::TensorImpl* parameter, std::int64_t count) {
    const auto found = optimizer.state().find(parameter);
    if (found != optimizer.state().end()) static_cast<State&>(*found->second).step(count);
  });
}

using Found = std::optional<at::Tensor>;

}  // namespace

at::Tensor FusedAdam::step(LossClosure closure) {
  using Options = torch::optim::AdamOptions;
  const auto kernel = [](AdamLists& lists, const Options& options, const Found& found) {
    const auto [beta1, beta2] = options.betas();
    at::_fused_adam_(lists.parameters, lists.gradients, lists.exp_avgs, lists.exp_avg_sqs, lists.max_exp_avg_sqs,
                     lists.steps, options.lr(), beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad(),
                     /*maximize=*/false, /*grad_scale=*/{}, found);
  };
  return step_all<Options, torch::optim::AdamParamState>(*this, closure, {take_found(), counts_}, kernel);
}

void FusedAdam::settle() { settle_counts<torch::optim::AdamParamState>(*this, counts_); }

at::Tensor FusedAdamW::step(LossClosure closure) {
  using Options = torch::optim::AdamWOptions;
  const auto kernel = [](AdamLists& lists, const Options& options, const Found& found) {
    const auto [beta1, beta2] = options.betas();
    at::_fused_adamw_(lists.parameters, lists.gradients, lists.exp_avgs, lists.exp_avg_sqs, lists.max_exp_avg_sqs,
                      lists.steps, options.lr(), beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad(),
                      /*maximize=*/false, /*grad_scale=*/{}, found);
  };
  return step_all<Options, torch::optim::AdamWParamState>(*this, closure, {take_found(), counts_}, kernel);
}

void FusedAdamW::settle() { settle_counts<torch::optim::AdamWParamState>(*this, counts_); }

}  // namespace mn
