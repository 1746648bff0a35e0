/// The parameters of a torch optimizer's groups, which a program may change between steps.
///
/// (1) all() has the parameters of the last adopt(); is_current() compares all() with the groups.
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
  /// `optimizer` outlives this object.
  explicit ParameterSet(torch::optim::Optimizer& optimizer) noexcept : optimizer_(optimizer) {}

  /// The parameters that the optimizer's groups list now.
  [[nodiscard]] std::vector<at::Tensor> listed() const;
  /// Removes repeated parameters from the groups: each parameter stays only where it comes first. libtorch's modules
  /// list a shared parameter twice.
  void remove_repeats();
  /// True if the groups list all(), and no parameter's requires_grad has changed since the last sort().
  [[nodiscard]] bool is_current() const;

  /// From now on, all() returns `parameters`.
  void adopt(std::vector<at::Tensor> parameters) { all_ = std::move(parameters); }
  /// Sorts all() into trained() and frozen(). `reduced` are the parameters that have a place in the reduction.
  void sort(const std::vector<at::Tensor>& reduced);

  [[nodiscard]] const std::vector<at::Tensor>& all() const noexcept { return all_; }
  [[nodiscard]] const std::vector<at::Tensor>& trained() const noexcept { return trained_; }
  [[nodiscard]] const std::vector<at::Tensor>& frozen() const noexcept { return frozen_; }

 private:
  torch::optim::Optimizer& optimizer_;
  std::vector<at::Tensor> all_, trained_, frozen_;
};

/// True if both lists have equal tensor objects in equal order.
[[nodiscard]] bool are_same(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others);

/// The index of `tensor` in `all`, if `all` has it.
[[nodiscard]] std::optional<std::size_t> index_in(const std::vector<at::Tensor>& all, const at::Tensor& tensor);

/// Collective. Throws UsageError on all ranks if a parameter is listed or requires a gradient on some ranks only, or if
/// the ranks differ in `change`, which says when a rank changes its set, such as "before this step".
void prove_same_set(const std::vector<at::Tensor>& parameters, const std::string& change, Communicator& comm);

/// Returns the tensors of `state` under new names. A tensor's name is KIND.INDEX: in `state` INDEX is the parameter's
/// index in `from`, in the result its index in `to`. Tensors of parameters that `to` lacks are left out.
[[nodiscard]] NamedTensors renumbered(const NamedTensors& state, const std::vector<at::Tensor>& from,
                                      const std::vector<at::Tensor>& to);

}  // namespace mn
