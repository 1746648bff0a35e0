/// Conditions under which the common options have an effect.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <mn/app/common_options.hpp>
#include <mn/core/options.hpp>

namespace mn::app {

/// The conditions of all common options except UpdateOptions, whose own conditions are in update.cpp. `common` must
/// outlive the result.
[[nodiscard]] std::vector<Options::Condition> effects_of(const CommonOptions& common);

/// For Options::add_conditions(): conditions of the common options that only a training uses. `trains` is true if the
/// job trains; `otherwise` ends the line "--epoch has no effect …" if not, such as "with --generate, …".
[[nodiscard]] std::vector<Options::Condition> training_conditions(const std::function<bool()>& trains,
                                                                  const std::string& otherwise);

}  // namespace mn::app
