/// Compares a few elements (samples) of each gradient on a device, without making the host wait.
///
/// (1) record() keeps the samples' bits; compare() finds a parameter whose samples have changed since then, and writes
///     its code to a number in device memory (the note). Both enqueue their work on the current stream.
/// (2) The device then copies the note to page-locked memory. The host reads the memory without waiting for the copy,
///     and therefore learns of a change at least one step late.
/// (3) If a sample has become 0, the gradient counts as zeroed and new, not as changed.
/// Cost of a step: one small kernel to record, seven to compare for each dtype, and a copy of 8 bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/tensor/flat_buffer.hpp>

namespace mn {

class DeviceSamples {
 public:
  /// The note of a changed parameter: the largest code (Part::codes) of all comparisons so far; 0: no change.
  struct ChangeNote {
    at::Tensor on_device;
    at::Tensor on_host;  // page-locked
  };

  /// `earlier` is the note of the DeviceSamples of an earlier buffer of the same parameters; its tensors are undefined
  /// if there was no earlier buffer.
  DeviceSamples(const FlatBuffer& gradients, std::size_t parameters, ChangeNote earlier);

  /// Records the samples: from now on a change of a gradient is found.
  void record();
  /// Call if gradients may change: drops the recorded samples, and ignores record() until begin().
  void forget() noexcept { is_forgotten_ = true; }
  /// Begins a step, with no samples recorded.
  void begin() noexcept { is_forgotten_ = is_recorded_ = false; }
  /// Enqueues the comparison with the recorded samples. Call once for each record().
  void compare();
  /// The first parameter whose gradient has changed, as far as the host knows (2).
  [[nodiscard]] std::optional<std::size_t> changed_parameter() const;
  [[nodiscard]] const ChangeNote& note() const noexcept { return note_; }

 private:
  /// The samples of one dtype.
  struct Part {
    at::Tensor bits;       // the dtype's memory, as integers
    at::Tensor positions;  // [samples] indices into `bits`
    at::Tensor codes;      // [samples] parameters - i for parameter i, so the first parameter has the largest code
    at::Tensor recorded;   // [samples] bits at the last record()
  };
  std::size_t parameters_;
  std::vector<Part> parts_;
  ChangeNote note_;
  bool is_recorded_ = false;
  bool is_forgotten_ = false;
};

}  // namespace mn
