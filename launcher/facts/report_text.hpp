/// Parts of a report, which is a JSON document, as people read them: in mnlaunch's own lines and in those of its self
/// test.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mn::launcher {

/// The table of --show, of an object for each rank. Columns are as wide as their widest entry.
[[nodiscard]] std::string placement_text(const nlohmann::json& rows);

/// A line for each finding, which begins with `before`; of a check that finds another thing on each of many nodes the
/// first ones, and their number.
[[nodiscard]] std::string findings_text(const nlohmann::json& findings, const std::string& before);

}  // namespace mn::launcher
