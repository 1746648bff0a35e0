/// Finds the known name nearest to a misspelled name, for messages like "Did you mean …".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mn {

/// The candidate with the least Levenshtein distance from `name`. No value if this distance is more than 1 plus a third
/// of the length of `name`. If `name` has at least three letters, a candidate that begins with `name` has distance 1.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace mn
