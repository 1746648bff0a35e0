#include <mn/gradients/ready_hooks.hpp>

#include <memory>
#include <numeric>
#include <utility>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace mn {
namespace {

using Hook = std::unique_ptr<torch::autograd::PostAccumulateGradHook>;

class ReadyHook : public torch::autograd::PostAccumulateGradHook {
 public:
  ReadyHook(const ReadyHooks& owner, std::function<void()> ready, Hook before)
      : owner_(owner), ready_(std::move(ready)), before_(std::move(before)) {}
  void operator()(const torch::autograd::Variable& variable) override {
    if (before_) (*before_)(variable);
    ready_();
  }
  /// Hooks are linked in a chain, which ends with `last`. Removes the hooks of `owner` from the chain.
  static void remove(Hook& last, const ReadyHooks& owner) {
    auto* const mine = dynamic_cast<ReadyHook*>(last.get());
    if (mine == nullptr) return;
    remove(mine->before_, owner);
    if (&mine->owner_ == &owner) last = std::exchange(mine->before_, nullptr);
  }

 private:
  const ReadyHooks& owner_;
  std::function<void()> ready_;
  Hook before_;
};

}  // namespace

ReadyHooks::ReadyHooks(const std::vector<at::Tensor>& parameters, std::function<void(std::size_t i)> ready)
    : ready_(std::move(ready)) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Hook before = std::exchange(torch::autograd::impl::post_acc_grad_hooks(parameters[i]), nullptr);
    auto hook = std::make_unique<ReadyHook>(
        *this, [this, i] { ready_(i); }, std::move(before));
    torch::autograd::impl::set_post_acc_grad_hooks(parameters[i], std::move(hook));
    hooked_.push_back(parameters[i]);
  }
}

ReadyHooks::~ReadyHooks() {
  for (const auto& parameter : hooked_) {
    ReadyHook::remove(torch::autograd::impl::post_acc_grad_hooks(parameter), *this);
  }
}

std::vector<std::size_t> backward_order(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

}  // namespace mn
