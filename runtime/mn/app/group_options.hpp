/// Parses the option --group. It gives settings to the parameters whose names match a pattern.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mn/optimizers/parameter_groups.hpp>
#include <mn/trainer/extensions/freezing.hpp>

namespace mn::app {

/// The value "PATTERN:SETTING,…" of one option --group.
struct Group {
  GroupRule rule;                           ///< pattern; "rate=F", "decay=X"
  std::optional<std::int64_t> frozen = {};  ///< "freeze=N": epochs; "freeze": kForever
  std::string schedule = {};                ///< "schedule=NAME": the group has its own schedule; empty: the common one
  std::optional<double> warmup = {};        ///< "warmup=N": epochs in which the rate of the group's own schedule rises
};

/// Throws UsageError if a value does not have the form PATTERN:SETTING,…, or if two patterns are equal.
[[nodiscard]] std::vector<Group> parse_groups(const std::vector<std::string>& texts);

/// Returns the rules of the groups in the form that parameter_groups() takes.
[[nodiscard]] std::vector<GroupRule> rules_of(const std::vector<Group>& groups);

/// Returns the groups with a setting "freeze", each with the number of its frozen epochs.
[[nodiscard]] std::vector<extensions::FrozenEpochs> frozen_epochs(const std::vector<Group>& groups);

}  // namespace mn::app
