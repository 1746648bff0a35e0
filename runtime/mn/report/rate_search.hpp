/// The curve of a search for the learning rate.
#pragma once

#include <filesystem>
#include <string>

namespace mn::report {

/// A section with a chart of the loss over the learning rate and the proposed rate, made from OUT/rate_search.json.
/// Empty if there is no such file. Throws DataError if the file is damaged.
[[nodiscard]] std::string rate_search(const std::filesystem::path& out);

}  // namespace mn::report
