#include "rounds/placement_table.hpp"

#include <algorithm>
#include <array>

#include <mn/core/json.hpp>

namespace mn::launcher {
namespace {

constexpr std::size_t kColumns = 9;
using Line = std::array<std::string, kColumns>;

Line line_of(const Row& row) {
  const auto known = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  return {std::to_string(row.rank),
          known(row.host),
          std::to_string(row.intra_rank),
          row.inter_rank ? std::to_string(*row.inter_rank) : "-",
          row.device,
          known(row.gpu),
          known(row.cores),
          known(row.nic),
          row.source};
}

}  // namespace

std::string table(const std::vector<Row>& rows) {
  std::vector<Line> lines = {{"rank", "host", "intra", "inter", "device", "gpu", "cores", "nic", "source"}};
  for (const auto& row : rows) lines.push_back(line_of(row));
  std::array<std::size_t, kColumns> widths{};
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (auto& line : lines) {
    for (std::size_t i = 0; i + 1 < kColumns; ++i) {
      line[i].resize(widths[i] + 2, ' ');
      text += line[i];
    }
    text += line.back() + "\n";
  }
  return text;
}

nlohmann::json to_json(const std::vector<Row>& rows) {
  auto list = nlohmann::json::array();
  for (const auto& row : rows) {
    list.push_back({{"rank", row.rank},
                    {"host", row.host},
                    {"intra_rank", row.intra_rank},
                    {"inter_rank", row.inter_rank ? nlohmann::json(*row.inter_rank) : nlohmann::json()},
                    {"device", row.device},
                    {"gpu", row.gpu},
                    {"cores", row.cores},
                    {"nic", row.nic},
                    {"source", row.source}});
  }
  return list;
}

}  // namespace mn::launcher
