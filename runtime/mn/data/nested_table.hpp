/// The tables of joined datasets and subsets, which consist of other datasets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::data {

/// `tables`: the parts' tables. `how`: {"shares": […]} for a joined dataset, {"indices": […]} for a subset.
[[nodiscard]] std::string nested_table(const std::vector<std::string>& tables, const nlohmann::json& how);
/// Reads a table that nested_table() made: {"tables": [BYTES, …], "how": …}. Returns no value if `table` is a table of
/// another kind. Throws DataError if the table is damaged.
[[nodiscard]] std::optional<nlohmann::json> parse_nested_table(std::string_view table);

inline constexpr const char* kNestedTableName = "the table of a joined dataset or subset";  // for error messages

}  // namespace mn::data
