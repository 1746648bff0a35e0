/// The unit of the weighted losses of a step, which may rise while gradients accumulate.
///
/// A weight is samples / unit. Float16 ends at 65504, so float16 gradients of losses with weights above 1 may overflow.
/// In a process with float16 gradients the unit therefore rises when the samples of a step exceed the unit, and
/// gradients of the step's earlier backwards are converted.
/// (1) A backward reads the unit at the first loss: all losses of a backward have the same unit.
/// (2) If gradients pass from rank to rank within a backward, the ranks agree on the largest unit when the backward
///     begins, because a gradient from a rank with many samples must not exceed float16 on a rank with few.
///     In a backward of several losses, the loss weighed last decides whether the ranks agree.
/// Cost of (2): a search of the loss's graph, and one reduction of 8 bytes in each such backward.
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
  /// Number of samples with weight 1.
  [[nodiscard]] double samples() const noexcept { return samples_; }
  /// Local, outside backward or at its begin. All UnitFollowers of this process convert their gradients.
  void rise_to(double samples);

 private:
  double samples_;
};

/// Converts the gradients of a list of parameters when a unit rises.
class UnitFollower {
 public:
  /// `convert` multiplies the gradients of this unit's losses, if there are any, by `factor`. `narrow`: some of the
  /// gradients are float16.
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

/// True if a UnitFollower of this process has float16 gradients.
[[nodiscard]] bool any_narrow_gradients();

/// Call this function, on all ranks of the group or on none, if the backward of `result` passes gradients over `group`
/// and ranks of the group have float16 gradients (2).
void mark_collective(const at::Tensor& result, const std::shared_ptr<Communicator>& group);
/// The groups of mark_collective() in the graph of this loss.
[[nodiscard]] std::vector<std::shared_ptr<Communicator>> marked_groups(const at::Tensor& loss);

}  // namespace mn
