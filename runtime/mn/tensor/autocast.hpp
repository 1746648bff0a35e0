/// Mixed precision: a scope in which libtorch's autocast is on.
#pragma once

#include <optional>

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// The calling thread's settings of autocast for one kind of device, CPUs or GPUs.
struct AutocastSettings {
  c10::DeviceType device;  ///< kind of device
  bool enabled;            ///< false: operations run in their inputs' types
  c10::ScalarType dtype;   ///< type of matrix products and convolutions

  /// Returns the calling thread's present settings.
  [[nodiscard]] static AutocastSettings of(c10::DeviceType device);
  /// Makes these the calling thread's settings.
  void set() const;
};

/// While an AutocastScope lives, its thread computes matrix products and convolutions in `type`, and sums and losses in
/// float32 (torch.autocast; Micikevicius et al. 2018, arXiv:1710.03740). This holds on all devices of the kind of
/// `device`. Use a scope for forward passes and losses; parameters and their gradients stay float32. With at::kHalf
/// small gradients become zero, therefore the loss needs scaling: see OptimizerOptions::grad_scaler. Scopes nest. A
/// rank may open a scope without the other ranks.
class AutocastScope {
 public:
  /// `type` is at::kBFloat16 or at::kHalf. Without a value the scope changes nothing.
  AutocastScope(std::optional<c10::ScalarType> type, Device device);
  explicit AutocastScope(const AutocastSettings& settings);  ///< opens a scope with these settings
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastSettings before_;
};

}  // namespace mn
