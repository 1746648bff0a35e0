/// Logs how long the training will take.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

class LogReport;

/// Rank 0 logs a line after kSteps steps of this process, but only if the rest of the training takes more than ten
/// seconds at the speed of these steps. The first kWarmUp steps do not count. If the job's time limit then proves to
/// come before the end of the training, another line follows the first report: validation and checkpoints are measured.
class Forecast final : public Extension {
 public:
  static constexpr std::int64_t kSteps = 20;  ///< step of this process after which the first line is logged
  static constexpr std::int64_t kWarmUp = 5;  ///< first steps, which are not timed

  /// `log` must outlive this object.
  explicit Forecast(const LogReport& log) : log_(log) {}

  [[nodiscard]] std::string name() const override { return "Forecast"; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;

  /// How fast a training is, and when it will end.
  struct Plan {
    double step_s = 0;                  ///< seconds of a step; if has_pauses, with its share of pauses
    std::int64_t steps_per_epoch = 1;   ///< updates
    std::int64_t steps_left = 0;        ///< updates until training ends
    double epoch = 0;                   ///< completed epochs, with the fraction of the current one
    std::optional<double> left_s = {};  ///< seconds until the last checkpoint before the job's time limit
    bool has_pauses = false;            ///< if true, step_s counts validation and checkpoints

    /// Seconds until training ends without a time limit.
    [[nodiscard]] double rest_s() const { return step_s * static_cast<double>(steps_left); }
    /// True if the time limit comes earlier.
    [[nodiscard]] bool is_limited() const { return left_s && *left_s < rest_s(); }
  };
  /// Returns the line for a plan, for instance "without validation and checkpoints an epoch takes about 1 min, the
  /// training 1 h 40 min from now; the time limit ends in epoch 41 at the latest". Names the time limit only if it
  /// comes before the end of the training.
  [[nodiscard]] static std::string line(const Plan& plan);

 private:
  using Clock = std::chrono::steady_clock;

  const LogReport& log_;
  std::int64_t first_iteration_ = 0;
  std::int64_t reports_ = 0;  // in the log when the measurement began
  std::optional<Clock::time_point> begin_;
  bool has_report_ = false;  // since the measurement began
  bool is_said_ = false;     // the first line was considered
  bool is_renewed_ = false;  // the second line was considered
};

}  // namespace mn::extensions
