/// The tables of datasets that are made of other datasets, that is, of joined datasets and subsets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::data {

/// Makes the table of a dataset that consists of other datasets. `tables` has the tables of these other datasets. `how`
/// is {"shares": […]} for a joined dataset, and {"indices": […]} for a subset.
[[nodiscard]] std::string nested_table(const std::vector<std::string>& tables, const nlohmann::json& how);
/// Reads a table that nested_table() made: {"tables": [BYTES, …], "how": …}. No value if `table` is a table of another
/// kind. Throws DataError if the table is damaged.
[[nodiscard]] std::optional<nlohmann::json> parse_nested_table(std::string_view table);

inline constexpr const char* kNestedTableName = "the table of a joined dataset or subset";  // for error messages

}  // namespace mn::data
