/// Tables of datasets that are made of other datasets: joined datasets and subsets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace mn::data {

/// The content of such a table.
struct NestedTable {
  std::vector<std::string> tables;  ///< the tables of the other datasets
  nlohmann::json how;               ///< {"shares": […]} joins the datasets, {"indices": […]} takes samples of one
};

[[nodiscard]] std::string serialize(const NestedTable& nested);
/// True for a table of serialize().
[[nodiscard]] bool is_nested_table(std::string_view table);
/// Reads a table of serialize(). Throws DataError if it is damaged.
[[nodiscard]] NestedTable parse_nested_table(std::string_view table);

}  // namespace mn::data
