/// What a job's server keeps for the ranks, who read there how to reach each other.
#pragma once

#include <optional>
#include <string>

namespace mn::launcher {

class Board {
 public:
  Board() = default;
  virtual ~Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Makes `text`, of printable characters without blanks and at most 1,000 of them, readable by all ranks after the
  /// next fence().
  virtual void put(const std::string& key, const std::string& text) = 0;
  /// Collective over all ranks of the job: what was put before it can be read after it.
  virtual void fence() = 0;
  /// What `rank` put; no value if it put nothing.
  [[nodiscard]] virtual std::optional<std::string> get(int rank, const std::string& key) = 0;
};

}  // namespace mn::launcher
