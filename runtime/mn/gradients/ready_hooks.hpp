/// Calls a function when a backward has accumulated a parameter's gradient.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// A post-accumulate hook on each parameter that requires a gradient. libtorch has one such slot for each parameter:
/// a hook that was there before is called first, and the destructor restores it.
class ReadyHooks {
 public:
  /// `ready(i)` runs on the backward's thread.
  ReadyHooks(const std::vector<at::Tensor>& parameters, std::function<void(std::size_t i)> ready);
  ~ReadyHooks();
  ReadyHooks(const ReadyHooks&) = delete;
  ReadyHooks& operator=(const ReadyHooks&) = delete;

 private:
  std::vector<at::Tensor> hooked_;
  std::function<void(std::size_t)> ready_;
};

/// count − 1 … 0: backward reaches the parameters of the last layer first.
[[nodiscard]] std::vector<std::size_t> backward_order(std::size_t count);

}  // namespace mn
