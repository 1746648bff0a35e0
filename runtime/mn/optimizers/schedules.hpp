/// Learning rates over time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace mn {

/// The learning rate after `iteration` completed iterations. A schedule has no state, so a resumed training continues
/// with the right rate.
using Schedule = std::function<double(std::int64_t iteration)>;

/// Always `rate`.
[[nodiscard]] Schedule constant_schedule(double rate);

/// `rate`, multiplied by `factor` at each of the milestones, which are iterations.
[[nodiscard]] Schedule step_schedule(double rate, std::vector<std::int64_t> milestones, double factor = 0.1);

/// Half a cosine from `rate` to `last` in `iterations`, then `last` (Loshchilov and Hutter 2017, arXiv:1608.03983).
[[nodiscard]] Schedule cosine_schedule(double rate, std::int64_t iterations, double last = 0);

/// One cycle (Smith and Topin 2018, arXiv:1708.07120): half a cosine from rate / 25 up to `rate` in the fraction
/// `rising` of `iterations`, then half a cosine down to rate / 250,000 in the last iteration, then rate / 250,000. The
/// rates are PyTorch's OneCycleLR(total_steps = iterations); momentum does not change.
[[nodiscard]] Schedule one_cycle_schedule(double rate, std::int64_t iterations, double rising = 0.3);

/// In the first `iterations` linearly from `first` up to the rate of `after`, then `after` (Goyal et al. 2017,
/// arXiv:1706.02677).
[[nodiscard]] Schedule warm_up(double first, std::int64_t iterations, Schedule after);

/// The linear scaling rule (Goyal et al.): k times the minibatch, k times the rate. `rate` is for `reference` samples
/// in a step; `samples` is the number of samples of all ranks in a step.
[[nodiscard]] double scale_learning_rate(double rate, std::int64_t samples, std::int64_t reference = 256);

}  // namespace mn
