/// Calls a function when a backward has accumulated a parameter's gradient.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// A post-accumulate hook on each parameter, also on a frozen one, which may require a gradient later. libtorch has one
/// slot for such a hook in each parameter: the new hook calls the earlier hook first, and the destructor restores it.
class ReadyHooks {
 public:
  /// `ready(i)` runs on backward's thread. `moves`: `ready` moves gradients; only one living object may move them.
  ReadyHooks(const std::vector<at::Tensor>& parameters, std::function<void(std::size_t i)> ready, bool moves = false);
  ~ReadyHooks();
  ReadyHooks(const ReadyHooks&) = delete;
  ReadyHooks& operator=(const ReadyHooks&) = delete;

  /// The first parameter whose gradient two living objects move.
  [[nodiscard]] std::optional<std::size_t> moved_twice() const;

 private:
  std::vector<at::Tensor> hooked_;
  std::function<void(std::size_t)> ready_;
};

/// count − 1 … 0: backward reaches the parameters of the last layer first.
[[nodiscard]] std::vector<std::size_t> backward_order(std::size_t count);

}  // namespace mn
