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

/// Returns the rate that the optimizer of make_optimizer() would have without the factors of --group.
[[nodiscard]] double base_rate(MultiNodeOptimizer& optimizer, const std::vector<Group>& groups);

/// Makes the schedule of each group in `names` (group_names()). `common` is the schedule of --schedule, `rate` the
/// learning rate without the factors of --group. A frozen group has the rate 0. A "schedule=NAME" lasts from the end of
/// the group's frozen epochs to the end of training. `lowered`, if given, changes all other schedules.
[[nodiscard]] std::vector<Schedule> group_schedules(const UpdateOptions& update, const std::vector<std::string>& names,
                                                    const Schedule& common, double rate, const TrainingSize& size,
                                                    const std::function<Schedule(Schedule)>& lowered = {});

}  // namespace mn::app
