#include <mn/optimizers/fused_check.hpp>

#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr std::int64_t kElements = 131;  // several vectors of any processor, and a remainder
constexpr const char* kNames[] = {"SGD", "Adam", "AdamW"};

using List = std::vector<at::Tensor>;

bool is_near(const at::Tensor& values, double wanted) { return values.sub(wanted).abs().max().item<double>() < 0.01; }

/// Checks the SGD kernel by updates of parameters of value 1 with gradient 1 and rate 1/2. One check has no momentum.
/// The other check has momentum 1/2, in a first step and in a later step.
bool sgd_is_right(const at::TensorOptions& options) {
  for (const bool has_momentum : {false, true}) {
    for (const bool is_first : {false, true}) {
      List parameters = {at::ones({kElements}, options)}, momenta;
      const List gradients = {at::ones({kElements}, options)};
      if (has_momentum) momenta.push_back(at::ones({kElements}, options));
      at::_fused_sgd_(parameters, gradients, momenta, /*weight_decay=*/0, has_momentum ? 0.5 : 0, /*lr=*/0.5,
                      /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, is_first);
      const double update = has_momentum && !is_first ? 1.5 : 1;
      if (!is_near(parameters[0], 1 - update / 2) || (has_momentum && !is_near(momenta[0], update))) return false;
    }
  }
  return true;
}

/// Checks an Adam kernel by an update of parameters of value 1 with gradient 1 and rate 1/2. The right result is known,
/// because Adam's first step is as long as the rate, whatever the betas are.
template <class Kernel>
bool adam_is_right(const at::TensorOptions& options, const Kernel& kernel) {
  for (const bool amsgrad : {false, true}) {
    const auto list = [&](double value) { return List{at::full({kElements}, value, options)}; };
    List parameters = list(1), gradients = list(1), firsts = list(0), seconds = list(0), most = list(0);
    if (!amsgrad) most.clear();
    const List steps = {at::ones({}, options.dtype(at::kFloat))};
    kernel(parameters, gradients, firsts, seconds, most, steps, /*lr=*/0.5, /*beta1=*/0.5, /*beta2=*/0.5,
           /*weight_decay=*/0, /*eps=*/0, amsgrad, /*maximize=*/false);
    if (!is_near(parameters[0], 0.5) || !is_near(firsts[0], 0.5) || !is_near(seconds[0], 0.5)) return false;
  }
  return true;
}

bool try_kernel(FusedKernel kernel, const at::TensorOptions& options) {
  switch (kernel) {
    case FusedKernel::kSgd:
      return sgd_is_right(options);
    case FusedKernel::kAdam:
      return adam_is_right(options, [](auto&&... arguments) { at::_fused_adam_(arguments...); });
    case FusedKernel::kAdamW:
      return adam_is_right(options, [](auto&&... arguments) { at::_fused_adamw_(arguments...); });
  }
  return false;
}

}  // namespace

bool is_right(FusedKernel kernel, const at::Tensor& like) {
  static std::mutex mutex;
  static std::map<std::tuple<FusedKernel, c10::DeviceType, at::ScalarType>, bool> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace({kernel, like.device().type(), like.scalar_type()});
  if (!is_new) return found->second;
  found->second = try_kernel(kernel, like.options().requires_grad(false));
  if (found->second) return true;
  const std::string what = std::string("libtorch's fused ") + kNames[static_cast<std::size_t>(kernel)] +
                           " gives wrong results for " + toString(like.scalar_type()) + " on " +
                           c10::DeviceTypeName(like.device().type(), /*lower_case=*/true);
  if (like.element_size() > 2) throw Error(what + ": use torch::optim's own, or another version of libtorch");
  log_info(what + ": mn updates float32 copies");
  return false;
}

WideCopies::WideCopies(std::initializer_list<std::vector<at::Tensor>*> lists, bool needed) {
  if (!needed) return;
  for (auto* const list : lists) {
    for (at::Tensor& tensor : *list) {
      if (tensor.element_size() != 2) continue;
      copies_.push_back({tensor, tensor.to(at::kFloat)});
      tensor = copies_.back().wide;
    }
  }
}

void WideCopies::write_back() {
  for (Copy& copy : copies_) copy.original.copy_(copy.wide);
}

}  // namespace mn
