/// Turns parts of a report (a JSON document) into text for people. mnlaunch and its self test call these functions.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mn::launcher {

/// Makes the table that --show prints. `rows` has an object for each rank. Each column is as wide as its widest entry.
[[nodiscard]] std::string placement_text(const nlohmann::json& rows);

/// Makes a line that begins with `before` for each finding, but only the first ones and a number for a check with many.
[[nodiscard]] std::string findings_text(const nlohmann::json& findings, const std::string& before);

}  // namespace mn::launcher
