/// Finds the known name nearest to a misspelled name, for messages such as "Did you mean …".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mn {

/// The candidate nearest to `name` by Levenshtein distance. No value if the distance is more than 1 plus a third of the
/// length of `name`. A candidate that begins with `name` has distance 1, if `name` has at least three letters.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace mn
