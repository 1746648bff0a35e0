/// Notices if the program changes gradients between backward and the step.
///
/// Before the step a rank's gradient comes from the samples of the calling rank alone. If the program clips or scales
/// the gradient then, the mean over ranks is wrong, and no other check finds the error.
/// (1) The hook of each gradient records the gradient after backward has accumulated it. Before the reduction the
///     gradient is compared with the record.
/// (2) A replaced tensor is always found, and so is a write that torch counts (the tensor's version). A write that
///     torch does not count (through `grad().data()`, as in libtorch's clip_grad_norm_) is found if one of a few
///     compared elements changes; on a GPU it is found a step late (device_samples.hpp). Depth::kAll compares a hash of
///     all elements instead, and waits for the GPU.
/// Cost: Depth::kSome reads a few elements of each gradient twice a step; kAll passes over all gradients twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/gradients/device_samples.hpp>
#include <mn/tensor/flat_buffer.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {

class GradientWatch {
 public:
  enum class Depth : std::uint8_t { kOff, kSome, kAll };
  using Backwards = std::vector<std::shared_ptr<const BackwardRecord>>;

  GradientWatch(std::vector<at::Tensor> parameters, Depth depth);
  /// On a GPU, makes the watch compare samples of the gradients in the buffer `gradients` from now on. If these
  /// parameters had an earlier watch, `earlier` is its change_note().
  void look_at(const FlatBuffer& gradients, DeviceSamples::ChangeNote earlier);
  /// On a GPU, returns the device's note of a changed gradient (device_samples.hpp). find_change() may not have
  /// reported this change yet.
  [[nodiscard]] DeviceSamples::ChangeNote change_note() const {
    return samples_ ? samples_->note() : DeviceSamples::ChangeNote();
  }

  /// Call it in the hook of gradient i, before the gradient moves into the buffer.
  void arrived(std::size_t i);
  /// Records the present elements of gradient i, for find_change() to compare.
  void record(std::size_t i);
  /// Records all gradients, for find_change() to compare. Call it after an intended change of all gradients.
  void record();
  /// Call it if gradient i may change: find_change() then skips gradient i.
  void forget(std::size_t i);
  /// Forgets all records and backwards, as if no backward had run.
  void forget();

  /// Call it once a step. Returns the first gradient that was changed after its last backward. On a GPU the change may
  /// belong to an earlier step, because the comparison reaches the host late (2). A gradient that was zeroed counts as
  /// new, not as changed.
  [[nodiscard]] std::optional<std::size_t> find_change();
  /// On a GPU, returns a gradient that changed in an earlier step. Returns no value if the host knows of no change yet.
  [[nodiscard]] std::optional<std::size_t> changed_earlier() const;

  /// Records that the parameters' present gradients are the mean over ranks, and forgets all else.
  void mark_reduced();
  /// True if a gradient that was a mean at the last mark_reduced() is still its parameter's gradient.
  [[nodiscard]] bool keeps_reduced() const { return keeps(reduced_); }
  /// True if a backward has run since forget().
  [[nodiscard]] bool backward_ran() const noexcept { return backward_ran_; }
  /// Returns the backwards that have run since forget(). If the program dropped all gradients of a backward before the
  /// next backward began, the dropped backward does not count.
  [[nodiscard]] const Backwards& backwards() const noexcept { return backwards_; }
  /// Takes over backwards() and backward_ran() of an earlier watch, which was active when the parameters' gradients
  /// were made.
  void take_over(Backwards backwards, bool ran);
  /// Call it when the unit of losses `unit` rises. Returns true if losses of backwards() have this unit. The caller
  /// must then convert the parameters' gradients to the new unit.
  [[nodiscard]] bool follow(const LossUnit& unit);
  /// Returns the sum of the weights of all losses from which backwards began. Returns 1 if no loss had a weight.
  [[nodiscard]] double weight_so_far() const;
  /// True if a backward has added to a gradient that was already a mean over ranks.
  [[nodiscard]] bool added_to_reduced() const noexcept { return added_to_reduced_; }

 private:
  /// Recognizes a tensor by its address. A weak reference keeps the address from being used again, even if the tensor
  /// is freed.
  class TensorIdentity {
   public:
    TensorIdentity() : tensor_(at::Tensor().getIntrusivePtr()) {}
    explicit TensorIdentity(const at::Tensor& tensor) : tensor_(tensor.getIntrusivePtr()) {}
    [[nodiscard]] bool is(const at::Tensor& other) const {
      return other.defined() && tensor_._unsafe_get_target() == other.unsafeGetTensorImpl();
    }

   private:
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor_;
  };
  struct Entry {
    bool recorded = false;
    TensorIdentity tensor;
    std::uint32_t version = 0;
    std::uint64_t mark = 0;  // hash of some or all elements
  };
  /// True if one of `gradients` is still its parameter's gradient.
  [[nodiscard]] bool keeps(const std::vector<TensorIdentity>& gradients) const;
  [[nodiscard]] std::uint64_t mark_of(const at::Tensor& gradient) const;
  void sample_after_backward();

  std::vector<at::Tensor> parameters_;
  Depth depth_;
  std::vector<Entry> entries_;
  std::shared_ptr<DeviceSamples> samples_;  // null on the CPU; shared with callbacks that run when a backward ends
  std::vector<TensorIdentity> arrived_;
  std::vector<TensorIdentity> reduced_;
  Backwards backwards_;
  int task_ = -1;  // the autograd engine's task of the last gradient that arrived
  bool backward_ran_ = false;
  bool added_to_reduced_ = false;
};

}  // namespace mn
