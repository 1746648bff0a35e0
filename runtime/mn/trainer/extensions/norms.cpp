#include <mn/trainer/extensions/norms.hpp>

#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_sub.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/master_weights.hpp>
#include <mn/trainer/global_norm.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

constexpr const char* kHook = "mn::extensions::Norms";

}  // namespace

Norms::Norms(std::int64_t every) : every_(every) {
  if (every_ < 1) throw UsageError("norms are reported every 1 or more iterations, got " + std::to_string(every_));
}

Norms::~Norms() {
  for (const auto& [name, watched] : optimizers_) watched.optimizer->remove_hook(kHook);
}

void Norms::initialize(Trainer& trainer) {
  if (trainer.options().cuda_graph != CudaGraph::kOff) {
    throw UsageError("norms (--norms) and a CUDA graph (--cuda-graph) exclude each other: a graph repeats one step");
  }
  for (const auto& [name, optimizer] : trainer.optimizers()) {
    if (optimizer->local()) {
      throw UsageError(
          "norms (--norms) and local steps (--local-steps) exclude each other: each rank has gradients of its own");
    }
    const auto [found, is_new] = optimizers_.try_emplace(name, Watched{optimizer, {}, {}, {}});
    if (!is_new) continue;  // at a second run() of the trainer, the hook exists already
    Watched& watched = found->second;
    const auto hook = [this, &trainer, &watched](const std::vector<at::Tensor>& parameters) {
      watched.parameters = parameters;
      watch(trainer, watched);
    };
    optimizer->add_hook(kHook, hook, /*first=*/true);
  }
}

/// An update may be smaller than the rounding of 16-bit weights, so the optimizer's exact weights count.
std::vector<at::Tensor> Norms::weights_of(const Watched& watched) {
  std::vector<at::Tensor> weights = watched.parameters;
  for (at::Tensor& weight : weights) weight = exact_weight(watched.optimizer->actual(), weight);
  return weights;
}

/// Called between the reduction and the update. If an optimizer makes several updates in an iteration, update_ratio
/// covers all these updates together, and gradient_norm belongs to the last update.
void Norms::watch(const Trainer& trainer, Watched& watched) const {
  if ((trainer.iteration() + 1) % every_ != 0) return;
  const at::NoGradGuard no_grad;
  watched.gradient_norm = global_norm(gradients_of(watched.parameters), watched.parameters);
  if (!watched.before.empty()) return;
  for (const at::Tensor& weight : weights_of(watched)) watched.before.push_back(weight.detach().clone());
}

void Norms::run(Trainer& trainer) {
  for (auto& [name, watched] : optimizers_) {
    if (watched.gradient_norm.defined()) {
      report(trainer, name == trainer.optimizers().front().name ? "" : "/" + name, watched);
    }
    watched.gradient_norm.reset();
    watched.parameters.clear();
    watched.before.clear();
  }
}

void Norms::report(Trainer& trainer, const std::string& end, Watched& watched) {
  const at::NoGradGuard no_grad;
  const auto gradient = watched.gradient_norm.item<double>();
  if (!std::isfinite(gradient)) return;
  const auto weight = global_norm(watched.before, watched.parameters).item<double>();
  const auto update =
      global_norm(at::_foreach_sub(weights_of(watched), watched.before), watched.parameters).item<double>();
  trainer.report_mean("gradient_norm" + end, gradient);
  trainer.report_mean("weight_norm" + end, weight);
  if (weight > 0) trainer.report_mean("update_ratio" + end, update / weight);
}

}  // namespace mn::extensions
