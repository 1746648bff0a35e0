/// The small numbers, beside the gradients, on which the ranks must agree in a step: their weights, flags such as "a
/// rank has found a fault", and which gradients exist.
///
/// Each rank fills in its own numbers; the mean over ranks is the agreement.
/// (1) On CPUs the numbers travel in the tail of the gradients' buffer (extra elements behind the gradients); therefore
///     they cost no message.
/// (2) On a GPU, reading a tail would make the host wait for all earlier work. Therefore the buffer has no tail there,
///     and the hosts exchange the numbers once they have enqueued the reduction of all gradients. The exchange ends
///     before the reduction does, since both wait for the last rank.
/// Cost on a GPU: one reduction between the hosts, with 8 bytes for each gradient, while the GPU reduces gradients.
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
  /// Flags of one rank. Once the ranks have agreed, a flag is set if any rank has set it. All flags except `fault` are
  /// about buckets that backward sends early.
  struct Signals {
    bool fault = false;       ///< the rank has found a fault: all ranks throw
    bool stale = false;       ///< the gradients have changed since the rank sent copies of them
    bool promises = false;    ///< the rank has announced the step, and its gradients may be reduced in place
    bool wants_copy = false;  ///< the rank could send gradients early only as copies
  };

  StepAgreement() = default;
  /// Holds the calling rank's weight and flags, and no gradient yet: call add() for each gradient in the buffer.
  StepAgreement(const StepWeight& weight, std::size_t gradients, const Signals& signals);
  /// Tells that the calling rank has gradient i in its buffer.
  void add(std::size_t i) { numbers_[kNumbers + i] = 1; }
  /// Tells that the calling rank has a sparse gradient of a parameter that is not known as sparse yet.
  void add_new_sparse() { numbers_[4] = 1; }
  /// Tells that the calling rank freezes or unfreezes parameters. All ranks throw unless all ranks make the same
  /// change.
  void add_set_change() { numbers_[8] = 1; }

  /// Returns how many elements the buffer's tail needs for a step's weights and flags; 0 on a GPU, where no tail
  /// exists.
  [[nodiscard]] static std::size_t tail_count(std::size_t gradients, const Communicator& comm);
  /// Copies the calling rank's weight and flags to `tail`, the end of the gradients' buffer. Does nothing if `tail` is
  /// empty.
  void write(const at::Tensor& tail) const;
  /// Collective. On GPUs the hosts exchange the ranks' weights and flags here; on CPUs, where the buffer's tail carries
  /// the numbers, the call does nothing.
  void agree(Communicator& comm);
  /// Call it after the reduction of the gradients' buffer: reads what the ranks have agreed on from its `tail`. Does
  /// nothing if `tail` is empty.
  void read(const at::Tensor& tail);

  /// The calling rank's gradients that do not lie in the buffer, such as sparse gradients, until their mean is
  /// computed.
  SparseGradients::Own outside;

  // The functions below may be called once the ranks have agreed.
  /// Mean over ranks of StepWeight::divisor.
  [[nodiscard]] double divisor() const { return numbers_[0]; }
  /// True if the calling rank's backward assumed equal weights on all ranks, but the calling rank's divisor differs
  /// from `mean`. `mean` is divisor() without the rounding of the reduction.
  [[nodiscard]] bool misweighed(double mean) const;
  [[nodiscard]] Signals signals() const {
    return {numbers_[5] != 0, numbers_[1] != 0, numbers_[2] != 0, numbers_[3] != 0};
  }
  /// True if any rank has called add_new_sparse().
  [[nodiscard]] bool any_new_sparse() const { return numbers_[4] != 0; }
  /// True if any rank has called add_set_change().
  [[nodiscard]] bool any_set_change() const { return numbers_[8] != 0; }
  /// True if any rank has found a fault, or may be misweighed().
  [[nodiscard]] bool any_fault() const { return numbers_[5] != 0 || (numbers_[6] != 0 && numbers_[7] != 0); }
  /// True if any rank has gradient i in its buffer.
  [[nodiscard]] bool has(std::size_t i) const { return numbers_[kNumbers + i] != 0; }

 private:
  static constexpr std::size_t kNumbers = 9;  // divisor and flags, before a number for each gradient: 1 if it exists

  std::vector<double> numbers_;
  StepWeight own_weight_;
};

}  // namespace mn
