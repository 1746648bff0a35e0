/// "Did you mean": the known name nearest to a misspelled one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mn {

/// The candidate nearest to `name` by Levenshtein distance; a prefix of a candidate counts as near. No value if no
/// candidate is within a third of the name's length.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace mn
