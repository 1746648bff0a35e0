/// The parameters of a torch optimizer's groups, which a program may change between steps.
///
/// (1) all() has the parameters of the last adopt(). is_current() tells whether the groups still list exactly these
///     parameters.
/// (2) trained() has the parameters whose gradients are reduced and that have requires_grad. frozen() has the
///     differentiable parameters without requires_grad.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
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
  /// If the groups list a parameter several times, keeps only the first place. libtorch's modules list a parameter
  /// twice if two modules share it.
  void remove_repeats();
  /// True if the groups still list exactly all(), and no parameter's requires_grad has changed since the last sort().
  [[nodiscard]] bool is_current() const;

  /// From now on the groups list `piece` in place of `whole`. listed() returns `whole`.
  void replace(const at::Tensor& whole, const at::Tensor& piece);
  /// From now on, all() returns `parameters`.
  void adopt(std::vector<at::Tensor> parameters) { all_ = std::move(parameters); }
  /// Divides all() into trained() and frozen(). `reduced` has the parameters whose gradients the reduction can reduce.
  void sort(const std::vector<at::Tensor>& reduced);

  [[nodiscard]] const std::vector<at::Tensor>& all() const noexcept { return all_; }
  [[nodiscard]] const std::vector<at::Tensor>& trained() const noexcept { return trained_; }
  [[nodiscard]] const std::vector<at::Tensor>& frozen() const noexcept { return frozen_; }

 private:
  torch::optim::Optimizer& optimizer_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> wholes_;  // by piece
  std::vector<at::Tensor> all_, trained_, frozen_;
};

/// True if both lists have the same tensor objects in the same order. Equal values are not enough.
[[nodiscard]] bool are_same(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others);

/// Returns the index of `tensor` in `all`. No value if `all` does not contain this tensor object.
[[nodiscard]] std::optional<std::size_t> index_in(const std::vector<at::Tensor>& all, const at::Tensor& tensor);

/// Collective. Throws UsageError on all ranks if a parameter is listed, or its gradient is required, on some ranks
/// only. Also throws if `change` differs between ranks. `change` says when a rank changes its set, such as "before this
/// step".
void prove_same_set(const std::vector<at::Tensor>& parameters, const std::string& change, Communicator& comm);

/// Returns `state` with new names. A name has the form KIND.INDEX, where INDEX is the index of a parameter in the list
/// `from`. The new name has the parameter's index in the list `to`. Leaves out the tensors of parameters that are not
/// in `to`.
[[nodiscard]] NamedTensors renumbered(const NamedTensors& state, const std::vector<at::Tensor>& from,
                                      const std::vector<at::Tensor>& to);

}  // namespace mn
