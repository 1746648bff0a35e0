/// --group: settings of the parameters of a pattern.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mn/optimizers/parameter_groups.hpp>
#include <mn/trainer/extensions/freezing.hpp>

namespace mn::app {

/// One --group "PATTERN:SETTING,…".
struct Group {
  GroupRule rule;                           ///< pattern; "rate=F", "decay=X"
  std::optional<std::int64_t> frozen = {};  ///< "freeze=N": epochs; "freeze": kForever
  std::string schedule = {};                ///< "schedule=NAME": a curve of the group's own; empty: the common curve
  std::optional<double> warmup = {};        ///< "warmup=N": epochs in which the rate of a curve of its own rises
};

/// The groups of all --group. Throws UsageError if a text is not of the form, or repeats a pattern.
[[nodiscard]] std::vector<Group> parse_groups(const std::vector<std::string>& texts);

/// The rules of the groups, for parameter_groups().
[[nodiscard]] std::vector<GroupRule> rules_of(const std::vector<Group>& groups);

/// The frozen epochs of the groups that are frozen.
[[nodiscard]] std::vector<extensions::FrozenEpochs> frozen_epochs(const std::vector<Group>& groups);

}  // namespace mn::app
