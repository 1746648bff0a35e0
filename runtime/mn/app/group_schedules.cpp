#include <mn/app/group_schedules.hpp>

#include <algorithm>
#include <utility>

namespace mn::app {
namespace {

/// For a group with "schedule=NAME" or "warmup=N". The schedule covers all epochs in which the group trains.
Schedule own_schedule(const Group& group, const UpdateOptions& update, double rate, const TrainingSize& size) {
  const std::int64_t start = group.frozen.value_or(0);
  if (start >= size.epochs) return constant_schedule(0);  // the group is frozen during the whole training
  UpdateOptions own = update;
  if (!group.schedule.empty()) own.schedule = group.schedule;
  own.warmup = group.warmup.value_or(0);
  own.warmup_iterations = 0;
  TrainingSize rest = size;
  rest.epochs -= start;
  if (rest.limit > 0) rest.limit = std::max<std::int64_t>(rest.limit - start * size.updates, 1);
  return starting_at(start * size.updates, scaled_schedule(group.rule.rate, make_schedule(own, rate, rest)));
}

/// While the group is frozen, the rate is 0; afterwards it is the common rate times the group's factor.
Schedule common_schedule(const Group& group, const Schedule& common, const TrainingSize& size) {
  const std::int64_t frozen = std::min(group.frozen.value_or(0), size.epochs + 1) * size.updates;
  return [factor = group.rule.rate, frozen, common](std::int64_t iteration) {
    return iteration < frozen ? 0 : factor * common(iteration);
  };
}

/// Returns null for the name of parameters that belong to no --group.
const Group* group_of(const std::string& name, const std::vector<Group>& groups) {
  const auto found = std::ranges::find_if(groups, [&](const Group& each) { return each.rule.pattern == name; });
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace

double base_rate(MultiNodeOptimizer& optimizer, const std::vector<Group>& groups) {
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    const Group* const group = group_of(optimizer.group_name(i), groups);
    const double factor = group == nullptr ? 1 : group->rule.rate;
    if (factor != 0) return optimizer.param_groups()[i].options().get_lr() / factor;
  }
  return 0;
}

std::vector<Schedule> group_schedules(const UpdateOptions& update, const std::vector<std::string>& names,
                                      const Schedule& common, double rate, const TrainingSize& size,
                                      const std::function<Schedule(Schedule)>& lowered) {
  const std::vector<Group> groups = parse_groups(update.groups);
  std::vector<Schedule> schedules;
  for (const std::string& name : names) {
    const Group* const group = group_of(name, groups);
    const bool has_own = group != nullptr && (group->warmup || !group->schedule.empty());
    Schedule schedule = common;
    if (has_own) {
      schedule = own_schedule(*group, update, rate, size);
    } else if (group != nullptr) {
      schedule = common_schedule(*group, common, size);
    }
    const bool follows = group == nullptr || group->schedule.empty();
    schedules.push_back(lowered && follows ? lowered(std::move(schedule)) : std::move(schedule));
  }
  return schedules;
}

}  // namespace mn::app
