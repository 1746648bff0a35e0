/// Loss scaling for float16, with the names and defaults of torch.amp.GradScaler (Micikevicius et al. 2018,
/// arXiv:1710.03740, section 3.2).
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

namespace mn {

/// How a GradScaler's scale follows the gradients.
struct GradScalerOptions {
  double init_scale = 65536;            ///< scale of the first step
  double growth_factor = 2;             ///< growth of the scale after growth_interval steps in a row without overflow
  double backoff_factor = 0.5;          ///< by which the scale is multiplied after a step whose gradients overflowed
  std::int64_t growth_interval = 2000;  ///< steps
  /// Equal in every member.
  bool operator==(const GradScalerOptions&) const = default;
};

/// Losses are multiplied before backward, so that small gradients are not rounded to 0 in float16; mean gradients are
/// divided again before hooks and the optimizer read them. A mean that is not finite is not applied, and the scale
/// falls. As the mean is the same on all ranks, so is that decision: it needs no message. A MultiNodeOptimizer has one
/// if its options say so, and calls all but scale().
class GradScaler {
 public:
  /// Throws UsageError if an option is out of range.
  explicit GradScaler(const GradScalerOptions& options);

  /// Local. loss × scale, for backward().
  [[nodiscard]] at::Tensor scale_loss(const at::Tensor& loss);
  /// Divides the parameters' gradients, means over all ranks, by the scale. False if one is NaN or infinite. Waits for
  /// the parameters' device.
  [[nodiscard]] bool unscale(const std::vector<at::Tensor>& parameters);
  /// Once a step: adapts the scale.
  void update(bool finite);

  /// By which losses are multiplied.
  [[nodiscard]] double scale() const noexcept { return scale_; }
  /// Whether scale_loss() was called since the last update().
  [[nodiscard]] bool has_scaled() const noexcept { return has_scaled_; }
  /// Steps left out so far.
  [[nodiscard]] std::int64_t skipped() const noexcept { return skipped_; }

  /// For a checkpoint; the same on all ranks.
  [[nodiscard]] nlohmann::json state() const;
  /// Throws nlohmann's exceptions if the state is another's.
  void load_state(const nlohmann::json& state);

 private:
  GradScalerOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;  // since the scale last changed
  std::int64_t skipped_ = 0;
  bool has_scaled_ = false;
};

}  // namespace mn
