/// Notices changes of gradients between backward and the step.
///
/// Until the step a gradient is computed from one rank's samples alone. If the program clips or scales the gradient
/// before the step, the mean over ranks is wrong, and no other check finds this.
/// (1) Each gradient is recorded in its hook, after backward has accumulated it, and compared before the reduction.
/// (2) A replaced tensor and a write that torch counts (the tensor's version) are always found. A write that torch does
///     not count (through `grad().data()`, as in libtorch's clip_grad_norm_) is found if one of a few compared elements
///     changes; on a GPU such a write is found a step late (device_samples.hpp). Depth::kAll compares a hash of all
///     elements instead, and waits for the GPU.
/// Cost: kSome reads a few elements of each gradient twice a step; kAll passes over all gradients twice.
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
  /// On a GPU, from now on compares samples of the gradients in the buffer `gradients`. `earlier` is the change_note()
  /// of the earlier watch of these parameters, if there was one.
  void look_at(const FlatBuffer& gradients, DeviceSamples::ChangeNote earlier);
  /// On a GPU, returns the device's note about a changed gradient (device_samples.hpp), which find_change() may not
  /// have reported yet.
  [[nodiscard]] DeviceSamples::ChangeNote change_note() const {
    return samples_ ? samples_->note() : DeviceSamples::ChangeNote();
  }

  /// Call it in the hook of gradient i, before the gradient moves into the buffer.
  void arrived(std::size_t i);
  /// Records gradient i: from now on a change of this gradient is found.
  void record(std::size_t i);
  /// Records all gradients: from now on a change of any gradient is found. Call after an intended change of all
  /// gradients.
  void record();
  /// Call if gradient i may change: find_change() then skips it.
  void forget(std::size_t i);
  /// Starts over, as if no backward had run.
  void forget();

  /// Call once a step. Returns the first gradient that was changed after its last backward. The change may belong to an
  /// earlier step if its comparison reached the host late (2). A gradient that was zeroed counts as new, not as
  /// changed.
  [[nodiscard]] std::optional<std::size_t> find_change();
  /// Returns a gradient that changed in an earlier step; no value if no comparison on the GPU has told the host of a
  /// change.
  [[nodiscard]] std::optional<std::size_t> changed_earlier() const;

  /// Records that the parameters' gradients are the mean over ranks.
  void mark_reduced();
  /// True if one of the gradients at the last mark_reduced() is still its parameter's gradient.
  [[nodiscard]] bool keeps_reduced() const { return keeps(reduced_); }
  /// True if a backward has run since forget().
  [[nodiscard]] bool backward_ran() const noexcept { return backward_ran_; }
  /// Returns the backwards since forget(). A backward does not count if the program dropped all its gradients before
  /// the next backward.
  [[nodiscard]] const Backwards& backwards() const noexcept { return backwards_; }
  /// Takes over backwards() and backward_ran() of an earlier watch, during which the parameters' gradients were made.
  void take_over(Backwards backwards, bool ran);
  /// Call it when the unit of losses `unit` rises. Returns true if losses of backwards() have this unit: the caller
  /// must then convert their gradients to the new unit.
  [[nodiscard]] bool follow(const LossUnit& unit);
  /// The sum of the weights of the backwards' losses; 1 if no loss had a weight.
  [[nodiscard]] double weight_so_far() const;
  /// True if a backward has added to a reduced gradient.
  [[nodiscard]] bool added_to_reduced() const noexcept { return added_to_reduced_; }

 private:
  /// Recognizes a tensor, even after it was freed: the weak reference keeps its address from being used again.
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
