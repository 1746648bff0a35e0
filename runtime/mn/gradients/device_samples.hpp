/// Finds gradients that change on a device after they were recorded, by comparing a few elements (samples) of each
/// gradient. The host never waits.
///
/// (1) record() keeps the samples' bits. compare() looks for a parameter whose samples have changed since record(), and
///     writes the parameter's code (Part::codes) to one number in device memory, called the note. Both functions
///     enqueue their work on the current stream.
/// (2) The device then copies the note to page-locked host memory. The host reads this memory without waiting for the
///     copy, and therefore learns of a change at least one step late.
/// (3) A sample that has become 0 does not count as changed, because zero_grad() may have zeroed the gradient.
/// Cost of a step: one small kernel to record, six to compare for each dtype, and a copy of 8 bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/tensor/flat_buffer.hpp>

namespace mn {

class DeviceSamples {
 public:
  /// The note, which tells the host of a changed gradient. It holds the largest code (Part::codes) that the comparisons
  /// have written so far, or 0 if no parameter has changed.
  struct ChangeNote {
    at::Tensor on_device;
    at::Tensor on_host;  // page-locked
  };

  /// If an earlier DeviceSamples watched an earlier buffer of the same parameters, `earlier` is its note(). If there
  /// was no earlier buffer, the tensors of `earlier` are undefined.
  DeviceSamples(const FlatBuffer& gradients, std::size_t parameters, ChangeNote earlier);

  /// Records the samples. Later compare() finds the gradients that have changed since this call.
  void record();
  /// Call it before an intended change of gradients. Drops the recorded samples. Until begin() is called, record() does
  /// nothing.
  void forget() noexcept { is_forgotten_ = true; }
  /// Begins a step, with no samples recorded.
  void begin() noexcept { is_forgotten_ = is_recorded_ = false; }
  /// Enqueues the comparison of the gradients with the recorded samples. Call it once for each record().
  void compare();
  /// Returns the first parameter whose gradient has changed. Returns no value if the host knows of no change. The host
  /// learns of a change at least one step late (2).
  [[nodiscard]] std::optional<std::size_t> changed_parameter() const;
  [[nodiscard]] const ChangeNote& note() const noexcept { return note_; }

 private:
  /// The samples of all gradients of one dtype.
  struct Part {
    at::Tensor bits;       // the dtype's memory, as integers
    at::Tensor positions;  // [samples] indices into `bits`
    at::Tensor codes;      // [samples] number of parameters − i, for parameter i
    at::Tensor recorded;   // [samples] bits at the last record()
  };
  std::size_t parameters_;
  std::vector<Part> parts_;
  ChangeNote note_;
  bool is_recorded_ = false;
  bool is_forgotten_ = false;
};

}  // namespace mn
