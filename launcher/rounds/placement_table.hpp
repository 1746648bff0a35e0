/// What mnlaunch prints about a job: the placement table of --show, as text or JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::launcher {

/// One line of the table.
struct Row {
  int rank = 0;
  std::string host;
  int intra_rank = 0;
  std::optional<int> inter_rank;
  std::string device;  ///< cpu or cuda:K, as the rank sees it
  std::string gpu;     ///< its address on the PCI bus
  std::string cores;   ///< as a CPU list
  std::string nic;     ///< empty: none known
  std::string source;
};

/// Columns as wide as their widest entry.
[[nodiscard]] std::string table(const std::vector<Row>& rows);
[[nodiscard]] nlohmann::json to_json(const std::vector<Row>& rows);

}  // namespace mn::launcher
