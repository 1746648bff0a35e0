/// Shows the result of a search for the learning rate.
#pragma once

#include <filesystem>
#include <string>

namespace mn::report {

/// Returns a section of the page with the proposed learning rate and a chart, from OUT/rate_search.json. Empty if there
/// is no such file. Throws DataError if the file is damaged.
[[nodiscard]] std::string rate_search(const std::filesystem::path& out);

}  // namespace mn::report
