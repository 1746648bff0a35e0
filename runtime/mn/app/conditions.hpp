/// Lists conditions under which the common options have an effect.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <mn/app/common_options.hpp>
#include <mn/core/options.hpp>

namespace mn::app {

/// Returns the conditions of all common options except the UpdateOptions, whose conditions are in update.cpp. `common`
/// must outlive the result.
[[nodiscard]] std::vector<Options::Condition> effects_of(const CommonOptions& common);

/// For Options::add_conditions(): returns the conditions of the common options that only a training uses. `trains`
/// returns true if the job trains. If the job does not train, `otherwise` ends the line "--epoch has no effect …", for
/// instance with "with --generate, …".
[[nodiscard]] std::vector<Options::Condition> training_conditions(const std::function<bool()>& trains,
                                                                  const std::string& otherwise);

}  // namespace mn::app
