/// Lets the ranks of a conversion communicate without MPI: each rank writes a file, its sign, to a shared folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include <mn/core/json.hpp>
#include <mn/core/launcher_variables.hpp>

namespace mn::data {

/// How long a rank waits for another rank's sign to change before it gives up.
struct Patience {
  std::chrono::milliseconds until_begun = std::chrono::minutes(5);  ///< wait for a rank's first sign
  /// Longest time without a change of a rank's sign. A rank that works on the plan changes its sign each second.
  std::chrono::milliseconds since_sign = std::chrono::minutes(1);
};

/// One rank's access to the signs of all ranks. A single rank writes no file.
class RankBoard {
 public:
  /// Removes this rank's sign of an earlier run from `folder`, which must exist.
  RankBoard(std::filesystem::path folder, JobRank me, Patience patience = {});

  /// Called on rank 0. Runs `plan`, and throws its errors; follow() then throws them on other ranks, too.
  void lead(const std::function<void()>& plan);
  /// Whether lead() has returned on rank 0 without an error, and rank 0 has not failed since.
  [[nodiscard]] bool has_led() const;
  /// Waits until is_done() returns true. If `rank` has failed, throws its error with its exit_code(); on_all_ranks() is
  /// true. If the sign of `rank` does not change for too long (Patience), throws DataError.
  void follow(int rank, const std::function<bool()>& is_done);
  /// Collective: all ranks must call work_together() equally often. Runs `part`, and returns when all ranks have run
  /// theirs. Throws the errors of `part`; if another rank fails, throws like follow().
  void work_together(const std::function<void()>& part);

  /// Publishes the result of this rank's part of the conversion. Does not wait. Returns the results of all ranks on a
  /// single rank, the last, and no value on all others.
  std::optional<std::vector<nlohmann::json>> finish(const nlohmann::json& result);

 private:
  [[nodiscard]] std::filesystem::path path_of(int rank) const;
  void post(nlohmann::json sign) const;
  /// Runs `part`, and meanwhile writes a new sign each second.
  void work_with_beat(const std::function<void()>& part);
  /// Like work_with_beat(), but writes a failure as this rank's sign.
  void work(const std::function<void()>& part);
  /// An empty object if the rank has no sign, or a sign of another job.
  [[nodiscard]] nlohmann::json sign_of(int rank) const;

  std::filesystem::path folder_;
  JobRank me_;
  Patience patience_;
  bool led_ = false;
  std::int64_t rounds_ = 0;  // calls of work_together() so far
};

}  // namespace mn::data
