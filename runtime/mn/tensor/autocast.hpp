/// Mixed precision: libtorch's autocast as a scope.
#pragma once

#include <optional>

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// The settings of autocast in this thread, for one kind of device.
struct AutocastSettings {
  c10::DeviceType device;  ///< kind of device
  bool enabled;            ///< false: operations run in their inputs' types
  c10::ScalarType dtype;   ///< type of matrix products and convolutions

  /// The settings now in effect.
  [[nodiscard]] static AutocastSettings of(c10::DeviceType device);
  /// Puts these settings into effect.
  void set() const;
};

/// While an object lives, this thread computes matrix products and convolutions in `type`, and sums and losses in
/// float32, on all devices of the kind of `device` (torch.autocast; Micikevicius et al. 2018, arXiv:1710.03740). Use it
/// for forward passes and losses; parameters and their gradients stay float32. With at::kHalf small gradients vanish,
/// so the loss needs scaling: see OptimizerOptions::grad_scaler. Scopes nest. A scope without a type changes nothing.
/// Each rank may open a scope by itself.
class AutocastScope {
 public:
  /// `type` is at::kBFloat16 or at::kHalf.
  AutocastScope(std::optional<c10::ScalarType> type, Device device);
  explicit AutocastScope(const AutocastSettings& settings);  ///< opens a scope with these settings
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastSettings before_;
};

}  // namespace mn
