/// Calls a function when a backward has accumulated a parameter's gradient.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// Adds a post-accumulate hook to each parameter. Frozen parameters get a hook, too, because they may require a
/// gradient later. In libtorch a parameter holds only one post-accumulate hook. The new hook therefore calls the
/// earlier hook first, and the destructor puts the earlier hook back.
class ReadyHooks {
 public:
  /// After a backward has accumulated the gradient of parameters[i], calls ready(i) on the thread of that backward.
  ReadyHooks(const std::vector<at::Tensor>& parameters, std::function<void(std::size_t i)> ready);
  ~ReadyHooks();
  ReadyHooks(const ReadyHooks&) = delete;
  ReadyHooks& operator=(const ReadyHooks&) = delete;

 private:
  std::vector<at::Tensor> hooked_;
  std::function<void(std::size_t)> ready_;
};

/// Returns count − 1, …, 1, 0. Backward usually finishes gradients in this order, because it reaches the parameters of
/// the last layer first.
[[nodiscard]] std::vector<std::size_t> backward_order(std::size_t count);

}  // namespace mn
