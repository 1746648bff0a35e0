#include <mn/trainer/extensions/forecast.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/trainer/extensions/log_report.hpp>
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
  std::string text = std::string(plan.has_pauses ? "with" : "without") +
                     " validation and checkpoints an epoch takes about " + duration_text(epoch_s) + ", the training " +
                     duration_text(plan.rest_s()) + " from now";
  if (plan.is_limited()) {
    const double reached = plan.epoch + *plan.left_s / epoch_s;
    text += "; the time limit ends in epoch " + std::to_string(static_cast<std::int64_t>(reached) + 1) +
            (plan.has_pauses ? "" : " at the latest");
  }
  return text;
}

void Forecast::initialize(Trainer& trainer) { first_iteration_ = trainer.iteration(); }

void Forecast::run(Trainer& trainer) {
  const std::int64_t steps = trainer.iteration() - first_iteration_;
  if (!trainer.is_root() || is_renewed_ || steps < kWarmUp) return;
  if (!begin_) {
    begin_ = Clock::now();
    reports_ = log_.count();
  }
  // Later extensions of this iteration, such as snapshots, have a known time only in the next iteration.
  const bool has_pauses = std::exchange(has_report_, log_.count() > reports_);
  if (steps < kSteps || (is_said_ && !has_pauses)) return;
  is_renewed_ = std::exchange(is_said_, true);
  const double seconds = std::chrono::duration<double>(Clock::now() - *begin_).count();
  const Plan plan = {.step_s = seconds / static_cast<double>(steps - kWarmUp),
                     .steps_per_epoch = trainer.iterations_per_epoch(),
                     .steps_left = steps_left(trainer),
                     .epoch = trainer.epoch_detail(),
                     .left_s = trainer.time_left_s(),
                     .has_pauses = is_renewed_};
  constexpr double kShort_s = 10;
  if (plan.rest_s() > kShort_s && (!is_renewed_ || plan.is_limited())) log_info(line(plan));
}

}  // namespace mn::extensions
