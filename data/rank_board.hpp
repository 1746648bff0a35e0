/// How the ranks of a conversion know of each other without MPI: each has a file in a folder that all of them see.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include <mn/core/json.hpp>
#include <mn/core/ranks.hpp>

namespace mn::data {

/// How long rank 0 may be silent before the others give up.
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
  /// Other ranks: returns as soon as `is_planned` does. Throws rank 0's error, for which on_all_ranks() is true and
  /// exit_code() the same, or DataError if rank 0 is silent.
  void follow(const std::function<bool()>& is_planned);

  /// This rank has done its part. Does not wait: one rank, one of the last, gets what all ranks gave.
  std::optional<std::vector<nlohmann::json>> finish(const nlohmann::json& result);

 private:
  [[nodiscard]] std::filesystem::path path_of(int rank) const;
  void post(nlohmann::json sign) const;
  [[nodiscard]] nlohmann::json sign_of(int rank) const;

  std::filesystem::path folder_;
  JobRank me_;
  Patience patience_;
};

}  // namespace mn::data
