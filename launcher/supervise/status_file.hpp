/// The status file, to which rank 0 of a step writes the progress of training (mn::RunStatus).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace mn::launcher {

/// Times are in seconds since 1970.
struct RunProgress {
  std::int64_t began = 0;
  std::int64_t iteration = 0;
  std::int64_t saved = 0;
  double up = 0;       ///< when the trainer was made
  double loaded = 0;   ///< when training began
  double stepped = 0;  ///< when the first iteration was complete; 0: not yet
};
/// No value if the file is missing or incomplete.
[[nodiscard]] std::optional<RunProgress> read_progress(const std::filesystem::path& path);

/// The status file, which MN_STATUS_FILE names. If the variable is unset, each attempt sets it, and makes a private
/// file in the current folder, which all hosts see. The destructor removes the file.
class StatusFile {
 public:
  StatusFile();
  ~StatusFile();
  StatusFile(const StatusFile&) = delete;
  StatusFile& operator=(const StatusFile&) = delete;

  /// Makes an empty status file, because an earlier attempt's progress must not count. If this fails, unsets
  /// MN_STATUS_FILE and returns the reason; else returns an empty text.
  [[nodiscard]] std::string renew();
  /// False if renew() was not called or has failed. Then read() has no value, even if training makes progress.
  [[nodiscard]] bool exists() const noexcept { return !path_.empty(); }
  /// Rank 0's progress. No value before training, or without a status file.
  [[nodiscard]] std::optional<RunProgress> read() const;
  /// Seconds since the status file was last written; 0 if unknown.
  [[nodiscard]] double silent_s() const;

 private:
  void remove() noexcept;

  const std::optional<std::string> named_;
  std::filesystem::path path_;
};

/// How long each part of a recovery took, from a failure to the next complete iteration.
struct Recovery {
  double detect_s = 0;     ///< from the last progress to a rank's line about the end, else to the step's end
  double tear_down_s = 0;  ///< from the end of `detect_s` until the next step could start
  double start_s = 0;      ///< launcher, checks, MPI, model and data
  double load_s = 0;       ///< loading the checkpoint
  double first_step_s = 0;

  [[nodiscard]] double all_s() const { return detect_s + tear_down_s + start_s + load_s + first_step_s; }
  /// Returns "detect 0.1 s, tear down 1.2 s, start 2.0 s, load 0.1 s, first step 0.2 s: 3.6 s in all".
  [[nodiscard]] std::string text() const;
};

}  // namespace mn::launcher
