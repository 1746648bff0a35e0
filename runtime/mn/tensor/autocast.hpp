/// Mixed precision: libtorch's autocast as a scope.
#pragma once

#include <optional>

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// The settings of autocast on one kind of device, in this thread.
struct AutocastSettings {
  c10::DeviceType device;  ///< kind of device
  bool enabled;            ///< false: operations run in their inputs' types
  c10::ScalarType dtype;   ///< type of matrix products and convolutions

  /// The present settings.
  [[nodiscard]] static AutocastSettings of(c10::DeviceType device);
  /// Makes these the present settings.
  void set() const;
};

/// While an object lives, this thread's operations on `device`'s kind of device run in `type` if that is safe: matrix
/// products and convolutions use `type`, sums and losses float32 (torch.autocast; Micikevicius et al. 2018,
/// arXiv:1710.03740). For forward passes and losses; parameters and their gradients stay float32. With at::kHalf small
/// gradients vanish, so the loss needs scaling: OptimizerOptions::grad_scaler. Scopes nest; without a type nothing
/// changes. Local.
class AutocastScope {
 public:
  /// `type` is at::kBFloat16 or at::kHalf.
  AutocastScope(std::optional<c10::ScalarType> type, Device device);
  explicit AutocastScope(const AutocastSettings& settings);  ///< with these settings
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastSettings before_;
};

}  // namespace mn
