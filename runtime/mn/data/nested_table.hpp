/// The tables of datasets that are made of other datasets, that is, of joined datasets and subsets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace mn::data {

/// The content of the table of a joined dataset or of a subset.
struct NestedTable {
  std::vector<std::string> tables;  ///< the tables of the datasets of which this dataset is made
  nlohmann::json how;               ///< {"shares": […]} of a joined dataset; {"indices": […]} of a subset
};

[[nodiscard]] std::string serialize(const NestedTable& nested);
/// Whether serialize() made `table`.
[[nodiscard]] bool is_nested_table(std::string_view table);
/// Reads a table that serialize() made. Throws DataError if the table is damaged.
[[nodiscard]] NestedTable parse_nested_table(std::string_view table);

}  // namespace mn::data
