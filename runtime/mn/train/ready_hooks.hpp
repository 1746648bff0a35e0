/// Tells when a backward has accumulated a parameter's gradient.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// A post-accumulate hook on each parameter that requires a gradient. Parameters have room for one: what was there
/// before is called first, and is there again afterwards.
class ReadyHooks {
 public:
  /// `ready(i)` is called on the thread of the backward.
  ReadyHooks(const std::vector<at::Tensor>& parameters, std::function<void(std::size_t i)> ready);
  ~ReadyHooks();
  ReadyHooks(const ReadyHooks&) = delete;
  ReadyHooks& operator=(const ReadyHooks&) = delete;

 private:
  std::vector<at::Tensor> hooked_;
  std::function<void(std::size_t)> ready_;
};

/// 0 … count − 1 backwards: backward meets the parameters of the last layer first.
[[nodiscard]] std::vector<std::size_t> backward_order(std::size_t count);

}  // namespace mn
