/// What rank 0 of a step says of its progress (mn::RunStatus), and times that follow.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace mn::launcher {

/// A status file; times are seconds since 1970.
struct RunProgress {
  std::int64_t began = 0;
  std::int64_t iteration = 0;
  std::int64_t saved = 0;
  double up = 0;       ///< the trainer was made
  double loaded = 0;   ///< training began
  double stepped = 0;  ///< the first iteration was complete; 0: not yet
};
/// No value if there is no such file, or it is not whole.
[[nodiscard]] std::optional<RunProgress> read_progress(const std::filesystem::path& path);

/// From a failure to the first step after it.
struct Recovery {
  double detect_s = 0;     ///< from the last sign of progress to the first line of a rank, or the end of the step
  double tear_down_s = 0;  ///< until the next step could start
  double start_s = 0;      ///< launcher, checks, MPI, model and data
  double load_s = 0;       ///< the checkpoint
  double first_step_s = 0;

  [[nodiscard]] double all_s() const { return detect_s + tear_down_s + start_s + load_s + first_step_s; }
  /// "detect 0.1 s, tear down 1.2 s, start 2.0 s, load 0.1 s, first step 0.2 s: 3.6 s in all".
  [[nodiscard]] std::string text() const;
};

}  // namespace mn::launcher
