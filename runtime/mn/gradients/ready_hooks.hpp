/// Calls a function when a backward has accumulated a parameter's gradient.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// A post-accumulate hook on each parameter, also on a frozen one, which may require a gradient later. libtorch has one
/// slot for such a hook in each parameter: the new hook calls the earlier hook first, and the destructor restores it.
class ReadyHooks {
 public:
  /// `ready(i)` runs on backward's thread.
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
