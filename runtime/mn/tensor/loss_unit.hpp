/// The unit of the weights of a step's losses. The unit may rise while gradients accumulate.
///
/// A weight is a number of samples divided by the unit. The largest float16 number is 65504; therefore float16
/// gradients of losses with weights above 1 may overflow. If a process has float16 gradients, the unit rises when the
/// number of samples in a step exceeds the unit, and the gradients of the step's earlier backward passes are converted.
/// (1) A backward pass reads the unit at the first loss. Therefore all losses of the pass have an equal unit.
/// (2) If gradients pass from rank to rank within a backward pass, the ranks agree on the largest unit when the pass
///     begins, because a gradient from a rank with many samples must not overflow float16 on a rank with few. If a
///     backward pass begins at several losses, the loss that was weighed last decides whether the ranks agree.
///
/// Cost of (2): a search of the loss's graph, and one reduction of 8 bytes in each backward pass of this kind.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <mn/comm/communicator.hpp>

namespace mn {

class LossUnit : public torch::CustomClassHolder {
 public:
  explicit LossUnit(double samples) noexcept : samples_(samples) {}
  /// The number of samples whose weight is 1.
  [[nodiscard]] double samples() const noexcept { return samples_; }
  /// Makes `samples` the unit; all UnitFollowers of the process then convert their gradients. Not collective. Call it
  /// outside a backward pass, or at the beginning of a pass.
  void rise_to(double samples);

 private:
  double samples_;
};

/// Converts the gradients of an optimizer's parameters when the unit of their losses rises.
class UnitFollower {
 public:
  /// A function that multiplies by `factor` the gradients of losses with the unit `unit`. Pass `narrow` = true to the
  /// constructor if some of these gradients are float16.
  using Convert = std::function<void(const LossUnit& unit, double factor)>;
  UnitFollower(bool narrow, Convert convert);
  ~UnitFollower();
  UnitFollower(const UnitFollower&) = delete;
  UnitFollower& operator=(const UnitFollower&) = delete;

 private:
  friend class LossUnit;
  bool is_narrow_;
  Convert convert_;
};

[[nodiscard]] bool any_narrow_gradients();

/// Call it, on all ranks of the group or on none, if the backward pass from `result` passes gradients between these
/// ranks. If some of them have float16 gradients, marks `result`; weighted losses computed from `result` then agree on
/// a unit.
void mark_collective(const at::Tensor& result, const std::shared_ptr<Communicator>& group);
/// Returns the groups for which mark_collective() has marked a tensor in the autograd graph of `loss`.
[[nodiscard]] std::vector<std::shared_ptr<Communicator>> marked_groups(const at::Tensor& loss);

}  // namespace mn
