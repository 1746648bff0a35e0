// Defines the hooks for weight decay and clipping. The hooks change gradients between the reduction and the update.
#include <mn/trainer/optimizer.hpp>

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/scalar_tensor.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/gradient_values.hpp>
#include <mn/tensor/multi_tensor.hpp>
#include <mn/trainer/global_norm.hpp>

namespace mn {
namespace {

bool is_narrow(const at::Tensor& tensor) { return tensor.element_size() < 4; }

/// Multiplies the gradients by `rate`. For 16-bit gradients on the CPU, the rate stays float32, because libtorch would
/// round a rate of 1e-8 to 0.
void multiply(const std::vector<at::Tensor>& gradients, const at::Tensor& rate) {
  std::vector<at::Tensor> wide;
  for (const at::Tensor& gradient : gradients) {
    if (!is_narrow(gradient)) {
      wide.push_back(gradient);
      continue;
    }
    // The rate gets as many dimensions as the gradient, because libtorch would otherwise not compute in float32.
    const std::vector<std::int64_t> ones(static_cast<std::size_t>(gradient.dim()), 1);
    gradient.mul_(rate.to(at::kFloat).reshape(ones));
  }
  if (!wide.empty()) at::_foreach_mul_(wide, rate);
}

/// Scales the gradients so that the norm of all gradients together is at most `max_norm`. If the norm is not finite,
/// leaves the gradients alone. Returns the norm before the scaling. On a GPU, the host does not wait.
at::Tensor clip(const std::vector<at::Tensor>& parameters, double max_norm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients = gradients_of(parameters);
  const at::Tensor norm = global_norm(gradients, parameters);
  std::erase_if(gradients, [](const at::Tensor& gradient) { return !gradient.defined(); });
  if (norm.is_cpu()) {
    const double rate = max_norm / norm.item<double>();
    if (rate < 1 && rate > 0) multiply(gradients, at::scalar_tensor(rate, at::kDouble));
  } else {
    limit_norm(gradients, norm, max_norm);
  }
  return norm;
}

void check_threshold(double max_norm) {
  if (!(max_norm > 0)) {
    throw ArgumentError("the norm to which gradients are clipped must be > 0, got " + std::to_string(max_norm));
  }
}

}  // namespace

GradientHook weight_decay(double rate) {
  return [rate](const std::vector<at::Tensor>& parameters) {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : parameters) {
      if (!parameter.grad().defined()) continue;
      reject_sparse(parameter, "weight decay");
      // If parameter and gradient have 16 bits, the parameter is added as float32, because libtorch would otherwise
      // round `rate` to 16 bits.
      parameter.mutable_grad().add_(is_narrow(parameter) ? parameter.to(at::kFloat) : parameter, rate);
    }
  };
}

GradientHook gradient_clipping(double threshold) {
  check_threshold(threshold);
  return [threshold](const std::vector<at::Tensor>& parameters) { static_cast<void>(clip(parameters, threshold)); };
}

double clip_grad_norm(MultiNodeOptimizer& optimizer, double max_norm, std::optional<double> samples) {
  check_threshold(max_norm);
  if (!optimizer.reduce_gradients(samples)) return 0;
  return clip(optimizer.trained_parameters(), max_norm).item<double>();
}

}  // namespace mn
