/// Makes the schedule for the learning rate of each --group.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <mn/app/group_options.hpp>
#include <mn/app/update.hpp>
#include <mn/optimizers/schedules.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn::app {

/// Returns the learning rate that the optimizer would have without the factors of --group. The optimizer must have the
/// parameter groups that make_optimizer() has made.
[[nodiscard]] double base_rate(MultiNodeOptimizer& optimizer, const std::vector<Group>& groups);

/// Makes the schedule of each group of parameters. `names` is the result of group_names(). `common` is the schedule of
/// --schedule, and `rate` is the learning rate without the factors of --group. While a group is frozen, its rate is 0.
/// If a group has "schedule=NAME", this schedule begins when the group's frozen epochs end, and lasts until the end of
/// training. The function `lowered`, if given, changes the schedules of all groups without "schedule=NAME".
[[nodiscard]] std::vector<Schedule> group_schedules(const UpdateOptions& update, const std::vector<std::string>& names,
                                                    const Schedule& common, double rate, const TrainingSize& size,
                                                    const std::function<Schedule(Schedule)>& lowered = {});

}  // namespace mn::app
