/// The file in which rank 0 of a step says how far training has come.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "supervise/progress.hpp"

namespace mn::launcher {

/// The file that MN_STATUS_FILE names; else a private one, of another name for each attempt that nobody can guess, in
/// the current folder, which all hosts see. MN_STATUS_FILE then names that. Removed in the end.
class StatusFile {
 public:
  StatusFile();
  ~StatusFile();
  StatusFile(const StatusFile&) = delete;
  StatusFile& operator=(const StatusFile&) = delete;

  /// An empty one: what the attempt before has said must not count as this one's progress. Returns why there is none,
  /// in which case MN_STATUS_FILE is unset; empty: there is one.
  [[nodiscard]] std::string renew();
  /// False if the last renew() has failed: then no progress does not mean that there was none.
  [[nodiscard]] bool exists() const noexcept { return !path_.empty(); }
  /// No value before training.
  [[nodiscard]] std::optional<RunProgress> read() const;
  /// Seconds since it was last written; 0: unknown.
  [[nodiscard]] double silent_s() const;

 private:
  void remove() noexcept;

  const std::optional<std::string> named_;
  std::filesystem::path path_;
};

}  // namespace mn::launcher
