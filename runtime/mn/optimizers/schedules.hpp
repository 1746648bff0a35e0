/// Schedules: functions that return the learning rate for each iteration.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace mn {

/// A function that returns the learning rate after `iteration` completed iterations. A schedule has no state; therefore
/// a resumed training continues with the right rate.
using Schedule = std::function<double(std::int64_t iteration)>;

/// Makes a schedule whose learning rate is always `rate`.
[[nodiscard]] Schedule constant_schedule(double rate);

/// Makes a schedule that begins with the learning rate `rate`, and multiplies it by `factor` at each milestone. A
/// milestone is a number of completed iterations.
[[nodiscard]] Schedule step_schedule(double rate, std::vector<std::int64_t> milestones, double factor = 0.1);

/// Makes a schedule that follows half a cosine from `rate` to `last` during `iterations` iterations, and then stays at
/// `last` (Loshchilov and Hutter 2017, arXiv:1608.03983).
[[nodiscard]] Schedule cosine_schedule(double rate, std::int64_t iterations, double last = 0);

/// Makes a schedule that falls linearly from `rate` to `last` during `iterations` iterations, and then stays at `last`.
[[nodiscard]] Schedule linear_schedule(double rate, std::int64_t iterations, double last = 0);

/// Makes a schedule that stays at `rate`, and falls linearly to `last` during the last iterations, which are the
/// fraction `falling` of all (warm-up, stable, decay: Hu et al. 2024, arXiv:2404.06395). Then it stays at `last`. Put
/// the warm-up before it with warm_up().
[[nodiscard]] Schedule wsd_schedule(double rate, std::int64_t iterations, double falling = 0.2, double last = 0);

/// Makes the schedule of one cycle (Smith and Topin 2018, arXiv:1708.07120). First the learning rate rises from rate /
/// 25 to `rate`, along half a cosine; this takes the fraction `rising` of all iterations. Then the rate falls to rate /
/// 250,000, along half a cosine that ends with the last iteration, and does not change any more. The rates equal those
/// of PyTorch's OneCycleLR(total_steps = iterations), but momentum does not change.
[[nodiscard]] Schedule one_cycle_schedule(double rate, std::int64_t iterations, double rising = 0.3);

/// Makes a schedule for the start of training. In the first `iterations` iterations the learning rate rises linearly
/// from `first` to the rate of the schedule `after`. Later the rate is the rate of `after` (Goyal et al. 2017,
/// arXiv:1706.02677). A curve that falls from the start never has its highest rate then; with holding(iterations, …)
/// around it, it begins to fall when the warm-up ends.
[[nodiscard]] Schedule warm_up(double first, std::int64_t iterations, Schedule after);

/// Makes a schedule that stays at the first rate of `after` for `iterations` iterations, and then follows `after`.
[[nodiscard]] Schedule holding(std::int64_t iterations, Schedule after);

/// Makes a schedule for parameters that begin to train late. The learning rate is 0 before iteration `start`. Then it
/// follows the schedule `after`, which counts iterations from `start` on. If you want a warm-up, put it into `after`.
[[nodiscard]] Schedule starting_at(std::int64_t start, Schedule after);

/// Makes a schedule whose learning rate is always `factor` times the rate of `schedule`.
[[nodiscard]] Schedule scaled_schedule(double factor, Schedule schedule);

/// Makes a schedule that rises from `first` to `last` in `iterations` iterations, by an equal factor in each iteration,
/// and then stays at `last`. Both rates must be above 0.
[[nodiscard]] Schedule exponential_schedule(double first, double last, std::int64_t iterations);

/// Returns a learning rate by the linear scaling rule (Goyal et al. 2017, arXiv:1706.02677): a minibatch k times as
/// large gets k times the learning rate. `rate` is the learning rate for `reference` samples in a step; `samples` is
/// the number of samples of all ranks in a step.
[[nodiscard]] double scale_learning_rate(double rate, std::int64_t samples, std::int64_t reference = 256);

}  // namespace mn
