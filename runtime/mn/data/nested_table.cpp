#include <mn/data/nested_table.hpp>

#include <mn/core/json.hpp>

namespace mn::data {
namespace {

using nlohmann::json;

constexpr std::string_view kNestedTableMagic = "mn nested table\n";

}  // namespace

std::string nested_table(const std::vector<std::string>& tables, const json& how) {
  json document = {{"how", how}, {"tables", json::array()}};
  for (const std::string& table : tables) document["tables"].push_back(json::binary({table.begin(), table.end()}));
  std::string bytes(kNestedTableMagic);
  json::to_cbor(document, bytes);
  return bytes;
}

std::optional<json> parse_nested_table(std::string_view table) {
  if (!table.starts_with(kNestedTableMagic)) return std::nullopt;
  return parse_cbor(table.substr(kNestedTableMagic.size()), kNestedTableName);
}

}  // namespace mn::data
