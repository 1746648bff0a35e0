/// Loss scaling for float16, with the names and defaults of torch.amp.GradScaler (Micikevicius et al. 2018,
/// arXiv:1710.03740, section 3.2), and a lower bound.
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
/// falls, but not below kMinScale: gradients that overflow there do so at any scale. As the mean is the same on all
/// ranks, so is that decision: it needs no message. A MultiNodeOptimizer has one if its options say so, and calls all
/// but scale().
///
/// On a device whose optimizer can leave a step out by itself the decision stays there, and the host does not wait for
/// it.
class GradScaler {
 public:
  static constexpr double kMinScale = 0x1p-14;       ///< unless the first scale is less
  static constexpr std::int64_t kTooManySteps = 20;  ///< left out in a row: more than a scale that adapts needs

  /// Throws UsageError if an option is out of range.
  explicit GradScaler(const GradScalerOptions& options);
  /// From now on the scale lives on this device, and overflows are known there alone.
  void stay_on(c10::Device device);

  /// Local. loss × scale, for backward().
  [[nodiscard]] at::Tensor scale_loss(const at::Tensor& loss);
  /// Divides the parameters' gradients, means over all ranks, by the scale. False if one is NaN or infinite. Waits for
  /// the parameters' device; after stay_on() it does not, returns true, and found() says it.
  [[nodiscard]] bool unscale(const std::vector<at::Tensor>& parameters);
  /// On the device: 1 if a gradient of the last unscale() was NaN or infinite, else 0.
  [[nodiscard]] const at::Tensor& found() const noexcept { return found_; }
  /// Once a step: adapts the scale. After stay_on() `finite` does not count.
  void update(bool finite);

  /// The factor by which losses are multiplied. After stay_on() this and skipped() are what the host has learned: some
  /// steps late, or right after a wait for the device.
  [[nodiscard]] double scale() const noexcept;
  /// Whether scale_loss() was called since the last update().
  [[nodiscard]] bool has_scaled() const noexcept { return has_scaled_; }
  /// Steps left out so far.
  [[nodiscard]] std::int64_t skipped() const noexcept;
  /// After each step. The number of steps left out in a row, where it is kTooManySteps times 1, 10, 100, …; else 0.
  /// After stay_on() it is that of some steps ago.
  [[nodiscard]] std::int64_t count_step();

  /// For a checkpoint; the same on all ranks. Waits for the device.
  [[nodiscard]] nlohmann::json state() const;
  /// Throws nlohmann's exceptions if the state is another's.
  void load_state(const nlohmann::json& state);

 private:
  /// Numbers of a device, all of one element.
  struct OnDevice {
    at::Tensor scale, good_steps, skipped;
    at::Tensor on_host;  // [scale, skipped] in page-locked memory, where they arrive late
  };
  void show_host();
  [[nodiscard]] double seen(std::int64_t i) const noexcept;

  GradScalerOptions options_;
  OnDevice device_;  // undefined tensors: the numbers are the host's, below
  at::Tensor found_;
  double scale_;
  std::int64_t good_steps_ = 0;  // since the scale last changed
  std::int64_t skipped_ = 0;
  bool has_scaled_ = false;
  // Of this process.
  std::int64_t steps_ = 0;
  std::int64_t good_at_ = 0;          // the last of them that was not left out
  std::int64_t skipped_at_good_ = 0;  // skipped() then
};

}  // namespace mn
