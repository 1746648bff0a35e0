/// Mixed precision: libtorch's autocast as a scope.
#pragma once

#include <optional>

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// While an object lives, this thread's operations on `device`'s kind of device run in `type` if that is safe: matrix
/// products and convolutions use `type`, sums and losses float32 (torch.autocast; Micikevicius et al. 2018,
/// arXiv:1710.03740). For forward passes and losses; parameters and their gradients stay float32. With at::kHalf small
/// gradients vanish, so the loss needs scaling: OptimizerOptions::grad_scaler. Scopes nest; without a type nothing
/// changes. Local.
class AutocastScope {
 public:
  /// `type` is at::kBFloat16 or at::kHalf.
  AutocastScope(std::optional<c10::ScalarType> type, Device device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_type_;
  bool before_;
  c10::ScalarType dtype_before_;
};

}  // namespace mn
