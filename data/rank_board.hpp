/// How the ranks of a conversion know of each other without MPI: each has a file in a folder that all of them see.
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

/// How long a rank that others wait for may be silent before they give up.
struct Patience {
  std::chrono::milliseconds until_begun = std::chrono::minutes(5);  ///< before its first sign
  std::chrono::milliseconds since_sign = std::chrono::minutes(1);   ///< it gives one each second
};

/// One rank's view. Alone (size 1) it writes no file.
class RankBoard {
 public:
  /// Takes back what an earlier run of this rank left in `folder`, which must be there.
  RankBoard(std::filesystem::path folder, JobRank me, Patience patience = {});

  /// Rank 0: runs `plan`. What it throws is thrown here, and by follow() on the others.
  void lead(const std::function<void()>& plan);
  /// Whether rank 0 has left lead().
  [[nodiscard]] bool has_led() const;
  /// Returns as soon as `is_done` is true of what `rank` does. Throws that rank's error, for which on_all_ranks() is
  /// true and exit_code() the same, or DataError if it is silent.
  void follow(int rank, const std::function<bool()>& is_done);
  /// All ranks, equally often: runs `part`, and returns when all have run theirs. Throws as follow() does if one fails.
  void work_together(const std::function<void()>& part);

  /// This rank has done its part. Does not wait: one rank, one of the last, gets what all ranks gave.
  std::optional<std::vector<nlohmann::json>> finish(const nlohmann::json& result);

 private:
  [[nodiscard]] std::filesystem::path path_of(int rank) const;
  void post(nlohmann::json sign) const;
  /// Runs `part` and gives signs meanwhile, and one if it fails.
  void work(const std::function<void()>& part);
  [[nodiscard]] nlohmann::json sign_of(int rank) const;

  std::filesystem::path folder_;
  JobRank me_;
  Patience patience_;
  bool led_ = false;
  std::int64_t rounds_ = 0;  // rounds of work_together() so far
};

}  // namespace mn::data
