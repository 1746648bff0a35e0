#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <mn/optimizers/schedules.hpp>

namespace mn {

Schedule constant_schedule(double rate) {
  return [rate](std::int64_t) { return rate; };
}

Schedule step_schedule(double rate, std::vector<std::int64_t> milestones, double factor) {
  return [rate, milestones = std::move(milestones), factor](std::int64_t iteration) {
    const auto passed = std::count_if(milestones.begin(), milestones.end(), [&](auto m) { return m <= iteration; });
    return rate * std::pow(factor, static_cast<double>(passed));
  };
}

Schedule cosine_schedule(double rate, std::int64_t iterations, double last) {
  return [rate, iterations, last](std::int64_t iteration) {
    if (iteration >= iterations) return last;
    const double done = static_cast<double>(iteration) / static_cast<double>(iterations);
    return last + (rate - last) * (1 + std::cos(std::numbers::pi * done)) / 2;
  };
}

Schedule one_cycle_schedule(double rate, std::int64_t iterations, double rising) {
  constexpr double kFirst = 1.0 / 25;
  constexpr double kLast = kFirst / 1e4;
  const auto top = static_cast<std::int64_t>(std::llround(rising * static_cast<double>(iterations)));
  const Schedule up = cosine_schedule(rate * kFirst, top, rate);
  const Schedule down = cosine_schedule(rate, iterations - top, rate * kLast);
  return [=](std::int64_t iteration) { return iteration < top ? up(iteration) : down(iteration - top); };
}

Schedule warm_up(double first, std::int64_t iterations, Schedule after) {
  return [first, iterations, after = std::move(after)](std::int64_t iteration) {
    // Toward what `after` says by now, not at first: no jump where the two meet.
    const double target = after(iteration);
    if (iteration >= iterations) return target;
    return first + (target - first) * static_cast<double>(iteration) / static_cast<double>(iterations);
  };
}

double scale_learning_rate(double rate, std::int64_t samples, std::int64_t reference) {
  return rate * static_cast<double>(samples) / static_cast<double>(reference);
}

}  // namespace mn
