/// Logs how long the training will take.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

class LogReport;

/// After kSteps steps of this process, rank 0 logs how long the rest of the training takes at the speed of these steps,
/// not counting the first kWarmUp steps. If the rest takes less than ten seconds, nothing is logged. After the first
/// report, the times of validation and checkpoints are known, too. If the job's time limit then turns out to come
/// before the end of the training, rank 0 logs a second line.
class Forecast final : public Extension {
 public:
  static constexpr std::int64_t kSteps = 20;  ///< after this step of the process, the first line is logged
  static constexpr std::int64_t kWarmUp = 5;  ///< number of first steps that are not timed

  /// `log` must outlive this object.
  explicit Forecast(const LogReport& log) : log_(log) {}

  [[nodiscard]] std::string name() const override { return "Forecast"; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;

  /// How fast a training is, and when it will end.
  struct Plan {
    double step_s = 0;                  ///< seconds of a step; if has_pauses, with its share of all pauses
    std::int64_t steps_per_epoch = 1;   ///< updates in an epoch
    std::int64_t steps_left = 0;        ///< updates until training ends
    double epoch = 0;                   ///< completed epochs, plus the fraction of the current epoch
    std::optional<double> left_s = {};  ///< seconds until the last checkpoint before the job's time limit
    bool has_pauses = false;            ///< if true, step_s includes validation and checkpoints

    /// Returns the seconds until training ends if the time limit does not end it earlier.
    [[nodiscard]] double rest_s() const { return step_s * static_cast<double>(steps_left); }
    /// True if the time limit comes before the end of training.
    [[nodiscard]] bool is_limited() const { return left_s && *left_s < rest_s(); }
  };
  /// Returns, for instance, "without validation and checkpoints an epoch takes about 1 min, the training 1 h 40 min
  /// from now; the time limit ends in epoch 41 at the latest".
  [[nodiscard]] static std::string line(const Plan& plan);

 private:
  using Clock = std::chrono::steady_clock;

  const LogReport& log_;
  std::int64_t first_iteration_ = 0;
  std::int64_t reports_ = 0;  // number of log entries when the measurement began
  std::optional<Clock::time_point> begin_;
  bool has_report_ = false;  // there was a report since the measurement began
  bool is_said_ = false;     // whether the first line was logged or found unnecessary
  bool is_renewed_ = false;  // whether the second line was logged or found unnecessary
};

}  // namespace mn::extensions
