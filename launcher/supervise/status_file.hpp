/// The file in which rank 0 of a step writes the progress of training.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "supervise/progress.hpp"

namespace mn::launcher {

/// The file that MN_STATUS_FILE names. If the variable is unset: a private file in the current folder, which all hosts
/// see, with a new random name for each attempt; the variable then names the file. Removed in the end.
class StatusFile {
 public:
  StatusFile();
  ~StatusFile();
  StatusFile(const StatusFile&) = delete;
  StatusFile& operator=(const StatusFile&) = delete;

  /// Makes an empty file: an earlier attempt's progress must not count for this one. Returns an empty text, or why
  /// there is no file; MN_STATUS_FILE is then unset.
  [[nodiscard]] std::string renew();
  /// False if the last renew() failed: then missing progress means nothing.
  [[nodiscard]] bool exists() const noexcept { return !path_.empty(); }
  /// No value before training.
  [[nodiscard]] std::optional<RunProgress> read() const;
  /// Seconds since the file was written; 0: unknown.
  [[nodiscard]] double silent_s() const;

 private:
  void remove() noexcept;

  const std::optional<std::string> named_;
  std::filesystem::path path_;
};

}  // namespace mn::launcher
