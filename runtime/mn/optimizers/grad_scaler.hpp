/// Loss scaling for float16, with the names and defaults of torch.amp.GradScaler (Micikevicius et al. 2018,
/// arXiv:1710.03740, section 3.2). In addition the scale has a lower bound.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

namespace mn {

/// How a GradScaler changes its scale from step to step.
struct GradScalerOptions {
  double init_scale = 65536;            ///< scale of the first step
  double growth_factor = 2;             ///< growth of the scale after growth_interval steps in a row without overflow
  double backoff_factor = 0.5;          ///< factor of the scale after a step whose gradients overflowed
  std::int64_t growth_interval = 2000;  ///< steps
  /// True if all members are equal.
  bool operator==(const GradScalerOptions&) const = default;
};

/// Multiplies a loss by a number, the scale, before backward, because otherwise float16 would round small gradients to
/// 0. The mean gradients are divided by the scale before hooks and the optimizer read them. If a mean has a NaN or
/// infinity, the step is left out and the scale falls. The scale does not fall below kMinScale, because gradients that
/// overflow at kMinScale overflow at any scale. The means are equal on all ranks; therefore all ranks make the same
/// decision without a message. If the options of a MultiNodeOptimizer ask for a GradScaler, the optimizer owns it, and
/// makes all calls but scale().
///
/// If the optimizer can leave out a step on its device, the decision is made on the device and the host does not wait.
class GradScaler {
 public:
  static constexpr double kMinScale = 0x1p-14;       ///< unless the first scale is less
  static constexpr std::int64_t kTooManySteps = 20;  ///< more steps left out in a row than an adapting scale explains

  /// Throws UsageError if an option is out of range.
  explicit GradScaler(const GradScalerOptions& options);
  /// From now on the scale is stored on `device`, and the host no longer learns which gradients overflowed.
  void stay_on(c10::Device device);

  /// Returns loss × scale, for backward(). Sends nothing to other ranks.
  [[nodiscard]] at::Tensor scale_loss(const at::Tensor& loss) const;
  /// Divides the parameters' gradients, which are means over all ranks, by the scale. Before stay_on(), waits for the
  /// device and returns false if a gradient is NaN or infinite. After stay_on(), does not wait and always returns true;
  /// has_overflow() then tells whether a gradient is NaN or infinite.
  [[nodiscard]] bool unscale(const std::vector<at::Tensor>& parameters);
  /// Returns a tensor on the device that holds 1 if a gradient of the last unscale() was NaN or infinite, otherwise 0.
  [[nodiscard]] const at::Tensor& has_overflow() const noexcept { return has_overflow_; }
  /// Changes the scale after a step. Call it once a step. `finite` is the result of unscale(); after stay_on() it is
  /// ignored.
  void update(bool finite);

  /// Returns the factor by which losses are multiplied. After stay_on() the results of scale() and skipped() may be
  /// some steps old; they are up to date after a wait for the device.
  [[nodiscard]] double scale() const noexcept;
  /// Returns the number of steps that were left out so far.
  [[nodiscard]] std::int64_t skipped() const noexcept;
  /// Call it after each step: counts how many steps in a row were left out. Returns this count if it is kTooManySteps
  /// times 1, 10, 100 and so on, otherwise 0. After stay_on(), the count is some steps old.
  [[nodiscard]] std::int64_t count_step();

  /// Returns the state for a checkpoint, which is the same on all ranks. Waits for the device.
  [[nodiscard]] nlohmann::json state() const;
  /// Restores a state that state() has returned. Throws nlohmann's exceptions if `state` is not such a state.
  void load_state(const nlohmann::json& state);

 private:
  /// The scaler's state on a device, each number in a tensor of one element.
  struct DeviceState {
    at::Tensor scale, good_steps, skipped;
    at::Tensor on_host;  // [scale, skipped] in page-locked memory, some steps old
  };
  void show_host();
  [[nodiscard]] double seen(std::int64_t i) const noexcept;

  GradScalerOptions options_;
  DeviceState device_;  // undefined before stay_on(), when the host's numbers below are used
  at::Tensor has_overflow_;
  double scale_;
  std::int64_t good_steps_ = 0;  // steps since the scale last changed
  std::int64_t skipped_ = 0;
  // The members below belong to count_step().
  std::int64_t steps_ = 0;            // steps of this process
  std::int64_t good_at_ = 0;          // the last step that was not left out
  std::int64_t skipped_at_good_ = 0;  // skipped() after that step
};

}  // namespace mn
