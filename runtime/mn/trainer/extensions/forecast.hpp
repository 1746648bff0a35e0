/// Logs one line about how long the training will take.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// Rank 0 logs the line after kSteps steps of this process, but only if the rest of the training takes more than ten
/// seconds at the speed of these steps. The first kWarmUp steps do not count.
class Forecast final : public Extension {
 public:
  static constexpr std::int64_t kSteps = 20;  ///< step of this process after which the line is logged
  static constexpr std::int64_t kWarmUp = 5;  ///< first steps, which are not timed

  [[nodiscard]] std::string name() const override { return "Forecast"; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;

  /// How fast a training is, and when it will end.
  struct Plan {
    double step_s = 0;                  ///< seconds of a step
    std::int64_t steps_per_epoch = 1;   ///< updates
    std::int64_t steps_left = 0;        ///< updates until training ends
    double epoch = 0;                   ///< completed epochs, with the fraction of the current one
    std::optional<double> left_s = {};  ///< seconds until the job's time limit
  };
  /// Returns the line for a plan, for instance "without validation and checkpoints an epoch takes about 1 min, the
  /// training 1 h 40 min from now; the time limit ends in epoch 41". Names the time limit only if it comes before the
  /// end of the training.
  [[nodiscard]] static std::string line(const Plan& plan);

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t first_iteration_ = 0;
  std::optional<Clock::time_point> begin_;
  bool is_done_ = false;
};

}  // namespace mn::extensions
