/// Notices what changes gradients between a backward and the step.
///
/// Until the step, gradients are this rank's own. What clips or scales them there trains otherwise than one rank would,
/// and nothing else would say so.
/// (1) Each gradient is recorded in its hook, when a backward has accumulated it, and compared before the reduction.
/// (2) Found always: another tensor, and writes that torch counts (the tensor's version). Writes past that count, as
///     libtorch's clip_grad_norm_ makes them (`grad().data()`), are found where they change one of a few elements; on a
///     device one step late (device_samples.hpp). kAll compares a hash of all elements, and waits for a device.
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
  /// The gradients that are going to be compared lie there. `earlier`: noted() of the watch before, if there was one.
  void look_at(const FlatBuffer& gradients, DeviceSamples::Noted earlier);
  /// What was found on a device and may not have been told.
  [[nodiscard]] DeviceSamples::Noted noted() const { return samples_ ? samples_->noted() : DeviceSamples::Noted(); }

  /// From the hook of gradient i: first, before the gradient moves anywhere.
  void arrived(std::size_t i);
  /// Then: from now on the gradient is to stay as it is.
  void record(std::size_t i);
  /// The same for all gradients, after a change that is meant.
  void record();
  /// Gradient i may change: it is not compared.
  void forget(std::size_t i);
  /// No backward has run.
  void forget();

  /// The first gradient that is not as its last backward left it, or was not in an earlier step (2). Gradients that
  /// were zeroed are new, not changed. Once a step.
  [[nodiscard]] std::optional<std::size_t> find_change();
  /// A gradient that changed in an earlier step, as far as the device has compared them.
  [[nodiscard]] std::optional<std::size_t> changed_earlier() const;

  /// The gradients that are there have been reduced.
  void mark_reduced();
  /// Whether one of them still is its parameter's gradient.
  [[nodiscard]] bool keeps_reduced() const { return keeps(reduced_); }
  /// Whether a backward has run since forget().
  [[nodiscard]] bool backward_ran() const noexcept { return backward_ran_; }
  /// What was recorded of them, but for those whose gradients were all dropped before the next.
  [[nodiscard]] const Backwards& backwards() const noexcept { return backwards_; }
  /// The gradients that the parameters have come from these backwards, which another watch has seen; `ran`: its
  /// backward_ran().
  void take_over(Backwards backwards, bool ran);
  /// The sum of the weights that their losses came with; 1 if none had one.
  [[nodiscard]] double weight_so_far() const;
  /// Whether it has added to a gradient that was reduced.
  [[nodiscard]] bool added_to_reduced() const noexcept { return added_to_reduced_; }

 private:
  /// Knows a tensor again also when it was freed: no other tensor takes its address meanwhile.
  class Known {
   public:
    Known() : tensor_(at::Tensor().getIntrusivePtr()) {}
    explicit Known(const at::Tensor& tensor) : tensor_(tensor.getIntrusivePtr()) {}
    [[nodiscard]] bool is(const at::Tensor& other) const {
      return other.defined() && tensor_._unsafe_get_target() == other.unsafeGetTensorImpl();
    }

   private:
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor_;
  };
  struct Entry {
    bool recorded = false;
    Known tensor;
    std::uint32_t version = 0;
    std::uint64_t mark = 0;  // hash of its elements
  };
  /// Whether one of them still is its parameter's gradient.
  [[nodiscard]] bool keeps(const std::vector<Known>& gradients) const;
  [[nodiscard]] std::uint64_t mark_of(const at::Tensor& gradient) const;
  void sample_after_backward();

  std::vector<at::Tensor> parameters_;
  Depth depth_;
  std::vector<Entry> entries_;
  std::shared_ptr<DeviceSamples> samples_;  // null on the CPU; shared with the ends of backwards
  std::vector<Known> arrived_;
  std::vector<Known> reduced_;
  Backwards backwards_;
  int task_ = -1;  // the engine's, of the last gradient that arrived
  bool backward_ran_ = false;
  bool added_to_reduced_ = false;
};

}  // namespace mn
