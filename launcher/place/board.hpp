/// Texts that a launcher's server keeps for the ranks of a job: there the ranks read how to reach each other.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mn/core/error.hpp>

namespace mn::launcher {

/// Some ranks of the job did not come to a fence in time.
class FenceTimeout : public Error {
 public:
  explicit FenceTimeout(const std::string& what, std::vector<int> missing = {})
      : Error(what), missing_(std::move(missing)) {}
  /// Ranks that never came; empty if the server does not tell.
  [[nodiscard]] const std::vector<int>& missing() const noexcept { return missing_; }

 private:
  std::vector<int> missing_;
};

class Board {
 public:
  Board() = default;
  virtual ~Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// All ranks can read `text` after the next fence(). It has at most 1,000 printable characters and no blank.
  virtual void put(const std::string& key, const std::string& text) = 0;
  /// Collective over all ranks of the job: texts put before the fence can be read after it. Throws FenceTimeout.
  virtual void fence() = 0;
  /// The text that `rank` put; no value if it put none.
  [[nodiscard]] virtual std::optional<std::string> get(int rank, const std::string& key) = 0;
};

}  // namespace mn::launcher
