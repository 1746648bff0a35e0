/// Lowers the learning rate when a monitored value no longer improves.
#pragma once

#include <cstdint>
#include <string>

#include <mn/optimizers/schedules.hpp>
#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/monitor.hpp>

namespace mn::extensions {

/// When the learning rate falls, and by how much. PyTorch's ReduceLROnPlateau gives the same rates as these options if
/// it gets patience − 1, threshold_mode "abs", Monitor's min_delta as threshold, and eps 0. Keras' ReduceLROnPlateau
/// gives the same rates with the same patience. If `cooldown` is not 0, Keras needs cooldown + 1, because Keras counts
/// the last report of a cooldown.
struct PlateauOptions {
  double factor = 0.1;         ///< multiplies the rate; in (0, 1)
  std::int64_t patience = 10;  ///< number of reports in a row without a better value before the rate falls
  std::int64_t cooldown = 0;  ///< number of reports after each fall that do not count as reports without a better value
  double min_rate = 0;        ///< no group's rate falls below this rate (min_lr in PyTorch and Keras)
};

/// Multiplies the learning rate by `factor` each time that `patience` reports in a row had no value better than the
/// best so far. Plateau only keeps the product of these factors: pass schedule() to the extension LearningRate. Neither
/// reports without the monitored value count, nor the report at the end of training.
class Plateau final : public Extension {
 public:
  /// Throws UsageError unless 0 < factor < 1, patience ≥ 1, cooldown ≥ 0 and min_rate ≥ 0.
  Plateau(Monitor monitor, const PlateauOptions& options);

  /// Returns the rates of `before` times all factors so far, but not below min_rate, unless `before` is lower itself.
  /// This Plateau must outlive the schedule.
  [[nodiscard]] Schedule schedule(Schedule before) const;
  /// Returns the product of all factors so far.
  [[nodiscard]] double scale() const noexcept { return scale_; }

  [[nodiscard]] std::string name() const override { return "Plateau"; }
  [[nodiscard]] int priority() const override { return kPriorityReport + 1; }
  void initialize(Trainer& trainer) override { monitor_.begin(*this, trainer); }
  void run(Trainer& trainer) override;
  [[nodiscard]] nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  Monitor monitor_;
  PlateauOptions options_;
  double scale_ = 1;
  std::int64_t cooldown_ = 0;  // so many of the next reports do not count
};

}  // namespace mn::extensions
