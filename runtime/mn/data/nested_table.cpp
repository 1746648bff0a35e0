#include <mn/data/nested_table.hpp>

#include <mn/core/json.hpp>

namespace mn::data {
namespace {

using nlohmann::json;

constexpr std::string_view kNestedTableMagic = "mn nested table\n";

}  // namespace

std::string serialize(const NestedTable& nested) {
  json document = {{"how", nested.how}, {"tables", json::array()}};
  for (const std::string& table : nested.tables) {
    document["tables"].push_back(json::binary({table.begin(), table.end()}));
  }
  const auto bytes = json::to_cbor(document);
  return std::string(kNestedTableMagic) + std::string(bytes.begin(), bytes.end());
}

bool is_nested_table(std::string_view table) { return table.starts_with(kNestedTableMagic); }

NestedTable parse_nested_table(std::string_view table) {
  const std::string source = "the table of a joined dataset or subset";
  const json document = parse_cbor(table.substr(kNestedTableMagic.size()), source);
  return read_json(source, [&] {
    NestedTable nested{.tables = {}, .how = document.at("how")};
    for (const json& part : document.at("tables")) {
      const json::binary_t& bytes = part.get_binary();
      nested.tables.emplace_back(bytes.begin(), bytes.end());
    }
    return nested;
  });
}

}  // namespace mn::data
