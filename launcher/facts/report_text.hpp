/// Turns parts of a report (a JSON document) into text for people, for mnlaunch and its self test.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mn::launcher {

/// Returns the table of --show. `rows` has an object for each rank. Each column is as wide as its widest entry.
[[nodiscard]] std::string placement_text(const nlohmann::json& rows);

/// Returns a line that begins with `before` for each finding. If a check has many findings, returns the first of them
/// and their number.
[[nodiscard]] std::string findings_text(const nlohmann::json& findings, const std::string& before);

}  // namespace mn::launcher
