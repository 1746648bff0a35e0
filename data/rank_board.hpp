/// How the ranks of a conversion communicate without MPI: each rank writes a file to a shared folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include <mn/core/json.hpp>
#include <mn/core/ranks.hpp>

namespace mn::data {

/// How long ranks wait for a silent rank before they give up.
struct Patience {
  std::chrono::milliseconds until_begun = std::chrono::minutes(5);  ///< before its first sign
  /// after its last sign; a working rank gives a sign each second
  std::chrono::milliseconds since_sign = std::chrono::minutes(1);
};

/// One rank's view. Alone (size 1) it writes no file.
class RankBoard {
 public:
  /// Removes the sign of an earlier run of this rank in `folder`, which must exist.
  RankBoard(std::filesystem::path folder, JobRank me, Patience patience = {});

  /// Rank 0: runs `plan`. lead() throws the errors of `plan`, and follow() throws them on other ranks.
  void lead(const std::function<void()>& plan);
  /// Whether rank 0 has left lead().
  [[nodiscard]] bool has_led() const;
  /// Returns as soon as `is_done` returns true. Throws the error of `rank`, with on_all_ranks() true and an equal
  /// exit_code(), or DataError if `rank` is silent for too long.
  void follow(int rank, const std::function<bool()>& is_done);
  /// All ranks, equally often: runs `part`, and returns when all have run theirs. Throws as follow() does if one fails.
  void work_together(const std::function<void()>& part);

  /// This rank has done its part. Does not wait: of all ranks, only one of the last gets the results of all.
  std::optional<std::vector<nlohmann::json>> finish(const nlohmann::json& result);

 private:
  [[nodiscard]] std::filesystem::path path_of(int rank) const;
  void post(nlohmann::json sign) const;
  /// Runs `part` with signs each second, and posts a sign if it fails.
  void work(const std::function<void()>& part);
  [[nodiscard]] nlohmann::json sign_of(int rank) const;

  std::filesystem::path folder_;
  JobRank me_;
  Patience patience_;
  bool led_ = false;
  std::int64_t rounds_ = 0;  // rounds of work_together() so far
};

}  // namespace mn::data
