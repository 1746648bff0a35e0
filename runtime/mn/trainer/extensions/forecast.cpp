#include <mn/trainer/extensions/forecast.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

std::int64_t steps_left(const Trainer& trainer) {
  const TrainerOptions& options = trainer.options();
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  if (options.epochs > 0) {
    const double epochs = static_cast<double>(options.epochs) - trainer.epoch_detail();
    left = std::llround(epochs * static_cast<double>(trainer.iterations_per_epoch()));
  }
  if (options.iterations > 0) left = std::min(left, options.iterations - trainer.iteration());
  return std::max<std::int64_t>(left, 0);
}

}  // namespace

std::string Forecast::line(const Plan& plan) {
  const double epoch_s = plan.step_s * static_cast<double>(plan.steps_per_epoch);
  const double rest_s = plan.step_s * static_cast<double>(plan.steps_left);
  std::string text = "without validation and checkpoints an epoch takes about " + duration_text(epoch_s) +
                     ", the training " + duration_text(rest_s) + " from now";
  if (plan.left_s && *plan.left_s < rest_s) {
    const double reached = plan.epoch + *plan.left_s / epoch_s;
    text += "; the time limit ends in epoch " + std::to_string(static_cast<std::int64_t>(reached) + 1);
  }
  return text;
}

void Forecast::initialize(Trainer& trainer) { first_iteration_ = trainer.iteration(); }

void Forecast::run(Trainer& trainer) {
  if (is_done_ || !trainer.is_root()) return;
  const std::int64_t steps = trainer.iteration() - first_iteration_;
  if (steps >= kWarmUp && !begin_) begin_ = Clock::now();
  if (steps < kSteps) return;
  is_done_ = true;
  const double seconds = std::chrono::duration<double>(Clock::now() - *begin_).count();
  const Plan plan = {.step_s = seconds / static_cast<double>(kSteps - kWarmUp),
                     .steps_per_epoch = trainer.iterations_per_epoch(),
                     .steps_left = steps_left(trainer),
                     .epoch = trainer.epoch_detail(),
                     .left_s = trainer.time_left_s()};
  constexpr double kShort_s = 10;
  if (plan.step_s * static_cast<double>(plan.steps_left) > kShort_s) log_info(line(plan));
}

}  // namespace mn::extensions
