/// "Did you mean": the known name nearest to a misspelled one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mn {

/// The candidate nearest to `name` by Levenshtein distance, within a third of its length; a prefix counts as near.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace mn
