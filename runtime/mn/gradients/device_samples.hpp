/// A few elements of each gradient on a device, which are compared there: the host waits for nothing.
///
/// (1) record() keeps the samples' bits, compare() notes a parameter whose samples differ from them, both in the order
///     of the current stream.
/// (2) What was noted travels to page-locked memory. The host reads it without asking whether it is there yet: it
///     learns of a change one step late, or later still.
/// (3) A sample that became 0 belongs to a gradient that was zeroed, which is new and not changed.
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
  /// What comparisons have found.
  struct Noted {
    at::Tensor on_device;  // the largest code so far; 0: none
    at::Tensor on_host;    // page-locked
  };

  /// `earlier` is what was noted of the same parameters while their gradients lay elsewhere, if that is defined.
  DeviceSamples(const FlatBuffer& gradients, std::size_t parameters, Noted earlier);

  /// From now on the gradients are to stay as they are.
  void record();
  /// They may change: what was recorded does not count, nor does record() until begin().
  void forget() noexcept { is_forgotten_ = true; }
  /// Nothing is recorded.
  void begin() noexcept { is_forgotten_ = is_recorded_ = false; }
  /// Once for each record().
  void compare();
  /// A parameter whose gradient had changed in a comparison that the device has made.
  [[nodiscard]] std::optional<std::size_t> found() const;
  [[nodiscard]] const Noted& noted() const noexcept { return noted_; }

 private:
  /// The samples of one dtype.
  struct Part {
    at::Tensor bits;       // the whole memory, as integers
    at::Tensor positions;  // [samples] in it
    at::Tensor codes;      // [samples] parameters - i for parameter i: the largest is that of the first one
    at::Tensor recorded;   // [samples]
  };
  std::size_t parameters_;
  std::vector<Part> parts_;
  Noted noted_;
  bool is_recorded_ = false;
  bool is_forgotten_ = false;
};

}  // namespace mn
