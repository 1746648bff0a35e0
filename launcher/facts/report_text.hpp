/// Makes text for people from parts of a report (a JSON document). mnlaunch and its self test use the functions.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mn::launcher {

/// Makes the table of --show; `rows` has an object for each rank. Columns are as wide as their widest entry.
[[nodiscard]] std::string placement_text(const nlohmann::json& rows);

/// Makes a line of text for each finding, with `before` at its beginning. Of a check with many findings, shows the
/// first lines and the number of the rest.
[[nodiscard]] std::string findings_text(const nlohmann::json& findings, const std::string& before);

}  // namespace mn::launcher
