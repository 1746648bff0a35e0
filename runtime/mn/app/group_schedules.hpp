/// The rate of each --group over time.
#pragma once

#include <string>
#include <vector>

#include <mn/app/groups.hpp>
#include <mn/app/update.hpp>
#include <mn/optimizers/schedules.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn::app {

/// Learning rate of an optimizer, whose groups have the names of group_names(), without the factors of --group.
[[nodiscard]] double base_rate(MultiNodeOptimizer& optimizer, const std::vector<Group>& groups);

/// The schedule of each group of parameters, by the names of group_names(). `common` is the schedule of --schedule, and
/// `rate` is the learning rate without factors. The rate of a frozen group is 0. A group's own curve begins when its
/// frozen epochs end, and lasts until the end of training.
[[nodiscard]] std::vector<Schedule> group_schedules(const UpdateOptions& update, const std::vector<std::string>& names,
                                                    const Schedule& common, double rate, const TrainingSize& size);

}  // namespace mn::app
