/// The parameters of a torch optimizer's groups, which a program may change between steps.
///
/// (1) all() has the parameters of the last adopt(); is_current() tells whether the groups still list these parameters.
/// (2) trained() has the parameters that are reduced and have requires_grad. frozen() has the differentiable parameters
///     without requires_grad.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

class ParameterSet {
 public:
  /// `optimizer` must outlive this object.
  explicit ParameterSet(torch::optim::Optimizer& optimizer) noexcept : optimizer_(optimizer) {}

  /// Returns the parameters that the optimizer's groups list now.
  [[nodiscard]] std::vector<at::Tensor> listed() const;
  /// Leaves each parameter only where it comes first in the groups: libtorch's modules list a shared one twice.
  void remove_repeats();
  /// True if the groups still list all(), and no parameter's requires_grad has changed since the last sort().
  [[nodiscard]] bool is_current() const;

  /// From now on, all() returns `parameters`.
  void adopt(std::vector<at::Tensor> parameters) { all_ = std::move(parameters); }
  /// Divides all() into trained() and frozen(). `reduced` are the parameters whose gradients the reduction can reduce.
  void sort(const std::vector<at::Tensor>& reduced);

  [[nodiscard]] const std::vector<at::Tensor>& all() const noexcept { return all_; }
  [[nodiscard]] const std::vector<at::Tensor>& trained() const noexcept { return trained_; }
  [[nodiscard]] const std::vector<at::Tensor>& frozen() const noexcept { return frozen_; }

 private:
  torch::optim::Optimizer& optimizer_;
  std::vector<at::Tensor> all_, trained_, frozen_;
};

/// True if the lists have the same tensor objects in the same order; equal values are not enough.
[[nodiscard]] bool are_same(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others);

/// Returns the index of `tensor` in `all`; no value if `all` does not have this tensor object.
[[nodiscard]] std::optional<std::size_t> index_in(const std::vector<at::Tensor>& all, const at::Tensor& tensor);

/// Collective. Throws UsageError on all ranks if some ranks list a parameter, or require its gradient, and other ranks
/// do not, or if `change` differs between ranks. `change` says when a rank changes its set, such as "before this step".
void prove_same_set(const std::vector<at::Tensor>& parameters, const std::string& change, Communicator& comm);

/// Renames the tensors of `state`, KIND.INDEX: from the index of a parameter in `from` to its index in `to`. Tensors of
/// parameters that `to` lacks are left out.
[[nodiscard]] NamedTensors renumbered(const NamedTensors& state, const std::vector<at::Tensor>& from,
                                      const std::vector<at::Tensor>& to);

}  // namespace mn
