/// Besides gradients, the ranks must agree in each step on a few numbers: their weights, flags such as "a rank has
/// found a fault", and which gradients exist.
///
/// Each rank fills in its own numbers; the mean of the numbers over ranks is the agreement.
/// (1) On CPUs the numbers travel in the tail of the gradients' buffer (extra elements behind the gradients); therefore
///     they cost no message.
/// (2) On a GPU, reading a tail would make the host wait for all earlier work. Therefore the buffer has no tail on a
///     GPU. The hosts exchange the numbers instead, once they have enqueued the reduction of all gradients. The
///     exchange ends before the reduction does, because both wait for the last rank.
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
  /// Flags of one rank. After the ranks have agreed, a flag is true if any rank has set it. All flags except `fault`
  /// concern buckets that are sent during backward, before the step.
  struct Signals {
    bool fault = false;       ///< the rank has found a fault: all ranks throw
    bool stale = false;       ///< the gradients have changed since the rank sent copies of them
    bool promises = false;    ///< the rank has announced the step, and its gradients may be reduced in place
    bool wants_copy = false;  ///< the rank could send gradients early only as copies
  };

  StepAgreement() = default;
  /// Takes the calling rank's weight and flags. At first no gradient counts as present: call add() for each gradient in
  /// the buffer.
  StepAgreement(const StepWeight& weight, std::size_t gradients, const Signals& signals);
  /// Notes that the calling rank has gradient i in its buffer.
  void add(std::size_t i) { numbers_[kNumbers + i] = 1; }
  /// Notes that the calling rank has a sparse gradient of a parameter that is not known as sparse yet.
  void add_new_sparse() { numbers_[4] = 1; }
  /// Notes that the calling rank freezes or unfreezes parameters. If the other ranks do not make the same change, all
  /// ranks throw.
  void add_set_change() { numbers_[8] = 1; }

  /// Returns how many elements the tail of the gradients' buffer needs for a step's weights and flags. Returns 0 on a
  /// GPU, where the buffer has no tail.
  [[nodiscard]] static std::size_t tail_count(std::size_t gradients, const Communicator& comm);
  /// Copies the calling rank's weight and flags to `tail`, the last elements of the gradients' buffer. Does nothing if
  /// `tail` is empty.
  void write(const at::Tensor& tail) const;
  /// Collective. On GPUs, exchanges the ranks' weights and flags between the hosts. On CPUs the call does nothing,
  /// because the tail of the gradients' buffer carries the numbers.
  void agree(Communicator& comm);
  /// Call it after the reduction of the gradients' buffer. Reads the agreement of the ranks from `tail`, the buffer's
  /// last elements. Does nothing if `tail` is empty.
  void read(const at::Tensor& tail);

  /// The calling rank's gradients that do not lie in the buffer, such as sparse gradients. They stay here until their
  /// mean over ranks is computed.
  SparseGradients::Own outside;

  // The functions below may be called only after the ranks have agreed.
  // Returns the mean over ranks of StepWeight::divisor.
  [[nodiscard]] double divisor() const { return numbers_[0]; }
  /// True if backward assumed equal weights on all ranks, but the calling rank's divisor differs from the mean over
  /// ranks. `mean` is divisor() without the rounding of the reduction.
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
  static constexpr std::size_t kNumbers = 9;  // divisor and flags; after them, for each gradient: 1 if it exists

  std::vector<double> numbers_;
  StepWeight own_weight_;
};

}  // namespace mn
