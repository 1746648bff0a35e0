#include <mn/optimizers/schedules.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace mn {
namespace {

/// Returns a value on half a cosine that leads from `first` to `last`. `done` is the fraction of the way, from 0 to 1.
double half_cosine(double first, double last, double done) {
  return last + (first - last) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace

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
    return half_cosine(rate, last, static_cast<double>(iteration) / static_cast<double>(iterations));
  };
}

Schedule linear_schedule(double rate, std::int64_t iterations, double last) {
  return wsd_schedule(rate, iterations, 1, last);
}

Schedule wsd_schedule(double rate, std::int64_t iterations, double falling, double last) {
  const auto fall = static_cast<std::int64_t>(std::llround(falling * static_cast<double>(iterations)));
  return [=](std::int64_t iteration) {
    const std::int64_t left = std::clamp<std::int64_t>(iterations - iteration, 0, fall);
    return fall == 0 ? rate : last + (rate - last) * static_cast<double>(left) / static_cast<double>(fall);
  };
}

Schedule one_cycle_schedule(double rate, std::int64_t iterations, double rising) {
  const double first = rate / 25;
  const double last = first / 1e4;
  const auto final_iteration = static_cast<double>(iterations - 1);
  const double top = rising * static_cast<double>(iterations) - 1;  // end of PyTorch's first phase; not a whole number
  return [=](std::int64_t iteration) {
    const auto now = static_cast<double>(iteration);
    if (now >= final_iteration) return last;
    if (now <= top) return half_cosine(first, rate, top > 0 ? now / top : 1);
    return half_cosine(rate, last, (now - top) / (final_iteration - top));
  };
}

Schedule warm_up(double first, std::int64_t iterations, Schedule after) {
  return [first, iterations, after = std::move(after)](std::int64_t iteration) {
    // The warm-up rises to the rate that `after` has at this iteration. Therefore the rate does not jump when the
    // warm-up ends.
    const double target = after(iteration);
    if (iteration >= iterations) return target;
    return first + (target - first) * static_cast<double>(iteration) / static_cast<double>(iterations);
  };
}

Schedule holding(std::int64_t iterations, Schedule after) {
  return [iterations, after = std::move(after)](std::int64_t iteration) {
    return after(std::max<std::int64_t>(iteration - iterations, 0));
  };
}

Schedule starting_at(std::int64_t start, Schedule after) {
  return [start, after = std::move(after)](std::int64_t iteration) {
    return iteration < start ? 0 : after(iteration - start);
  };
}

Schedule scaled_schedule(double factor, Schedule schedule) {
  return [factor, schedule = std::move(schedule)](std::int64_t iteration) { return factor * schedule(iteration); };
}

Schedule exponential_schedule(double first, double last, std::int64_t iterations) {
  return [=](std::int64_t iteration) {
    if (iteration >= iterations) return last;
    return first * std::pow(last / first, static_cast<double>(iteration) / static_cast<double>(iterations));
  };
}

double scale_learning_rate(double rate, std::int64_t samples, std::int64_t reference) {
  return rate * static_cast<double>(samples) / static_cast<double>(reference);
}

}  // namespace mn
