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
  std::chrono::milliseconds until_begun = std::chrono::minutes(5);  ///< wait for the first sign of a rank
  /// The longest time to wait after the last change of a rank's sign. A rank that works on the plan changes its sign
  /// each second.
  std::chrono::milliseconds since_sign = std::chrono::minutes(1);
};

/// One rank's access to the signs of all ranks, the files by which ranks communicate. If there is only one rank, no
/// file is written.
class RankBoard {
 public:
  /// Removes the sign of this rank that an earlier run left in `folder`. The folder must exist.
  RankBoard(std::filesystem::path folder, JobRank me, Patience patience = {});

  /// Called on rank 0. Runs `plan`, and throws its errors. If `plan` throws, follow() throws the same error on other
  /// ranks.
  void lead(const std::function<void()>& plan);
  /// Whether lead() has returned on rank 0 without an error, and rank 0 has not failed since.
  [[nodiscard]] bool has_led() const;
  /// Waits until is_done() returns true. If `rank` has failed, throws the error of `rank`: its exit_code() is kept, and
  /// on_all_ranks() is true. If the sign of `rank` does not change for too long (Patience), throws DataError.
  void follow(int rank, const std::function<bool()>& is_done);
  /// Collective: all ranks must call work_together() equally often. Runs `part`, and returns when all ranks have run
  /// their parts. Throws the errors of `part`; if another rank fails, throws as follow() does.
  void work_together(const std::function<void()>& part);

  /// Publishes the result of this rank's part of the conversion. Does not wait. Returns the results of all ranks on one
  /// rank, which counts as the last, and no value on all other ranks.
  std::optional<std::vector<nlohmann::json>> finish(const nlohmann::json& result);

 private:
  [[nodiscard]] std::filesystem::path path_of(int rank) const;
  void post(nlohmann::json sign) const;
  /// Runs `part`. Meanwhile writes a new sign each second, so that other ranks see that this rank works.
  void work_with_beat(const std::function<void()>& part);
  /// Calls work_with_beat(part). If `part` fails, writes the failure as this rank's sign.
  void work(const std::function<void()>& part);
  /// The sign of a rank. An empty object if the rank has no sign, or if the sign belongs to another job.
  [[nodiscard]] nlohmann::json sign_of(int rank) const;

  std::filesystem::path folder_;
  JobRank me_;
  Patience patience_;
  bool led_ = false;
  std::int64_t rounds_ = 0;  // number of calls of work_together() so far
};

}  // namespace mn::data
