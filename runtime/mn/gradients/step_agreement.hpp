/// What the ranks must agree on in a step, beside the gradients.
///
/// Each rank says what it has; the mean over ranks tells all of them the same.
/// (1) On CPUs the numbers travel in the tail of the gradients' buffer, which costs no message.
/// (2) On a device that would cost a wait: a host that reads the tail waits for all work before it. There the buffer
///     has no tail, and the numbers travel between the hosts, while the device still runs backward.
/// Cost on a device: one reduction of 8 bytes for each gradient on the hosts.
#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/gradients/sparse_gradients.hpp>
#include <mn/gradients/step_weight.hpp>

namespace mn {

class StepAgreement {
 public:
  /// What a rank tells the others of the reductions that it began during backward; agreed: whether any rank has.
  struct Signals {
    bool fault = false;       ///< it has found a fault, for which all ranks are to throw
    bool stale = false;       ///< copies that it sent are not the step's gradients
    bool in_place = false;    ///< its gradients are gone, the ranks' mean is in their place
    bool wants_copy = false;  ///< it could have sent more, had it a buffer for copies
  };

  StepAgreement() = default;
  /// What this rank has to say; its gradients are still to be added.
  StepAgreement(const StepWeight& weight, std::size_t gradients, const Signals& signals);
  /// This rank has gradient i in its buffer.
  void add(std::size_t i) { numbers_[kNumbers + i] = 1; }
  /// This rank has a sparse gradient of a parameter that was not known for them.
  void add_new_sparse() { numbers_[4] = 1; }

  /// Elements of the tail that buffers on the communicator's device need.
  [[nodiscard]] static std::size_t tail_count(std::size_t gradients, const Communicator& comm);
  /// Puts this rank's numbers there, if there is a tail.
  void write(const at::Tensor& tail) const;
  /// Collective. On a device: the hosts agree.
  void agree(Communicator& comm);
  /// Takes what was agreed from a tail that has been reduced, if there is a tail.
  void read(const at::Tensor& tail);

  /// This rank's gradients outside the buffer. They stay here until the mean is asked for.
  SparseGradients::Own outside;

  // Once agreed:
  /// Mean over ranks.
  [[nodiscard]] double divisor() const { return numbers_[0]; }
  /// Whether this rank's part differs from `mean`, which divisor() is but for rounding, although it assumed not to.
  [[nodiscard]] bool misweighed(double mean) const;
  [[nodiscard]] Signals signals() const {
    return {numbers_[5] != 0, numbers_[1] != 0, numbers_[2] != 0, numbers_[3] != 0};
  }
  /// Whether any rank has called add_new_sparse().
  [[nodiscard]] bool any_new_sparse() const { return numbers_[4] != 0; }
  /// Whether any rank has found a fault, or may be misweighed().
  [[nodiscard]] bool any_fault() const { return numbers_[5] != 0 || (numbers_[6] != 0 && numbers_[7] != 0); }
  /// Whether any rank has gradient i in its buffer.
  [[nodiscard]] bool has(std::size_t i) const { return numbers_[kNumbers + i] != 0; }

 private:
  static constexpr std::size_t kNumbers = 8;  // the weight and the signals; then 1 for each gradient that is there

  std::vector<double> numbers_;
  StepWeight own_weight_;
};

}  // namespace mn
