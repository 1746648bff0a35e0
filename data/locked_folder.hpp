/// Locks the output folder of a conversion against other conversions.
#pragma once

#include <filesystem>

#include <mn/core/fd.hpp>
#include <mn/core/launcher_variables.hpp>

namespace mn::data {

/// Makes the folder if it is missing, and locks out other conversions until the destructor. The ranks of one job share
/// the lock. It is flock(2) on a file in the folder, so a killed process leaves no lock. Has no effect on a file system
/// without locks.
class LockedFolder {
 public:
  /// Throws UsageError if another conversion has the lock. A rank of a job first waits a moment for it.
  LockedFolder(std::filesystem::path folder, const JobRank& me);
  ~LockedFolder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_; }

 private:
  std::filesystem::path folder_;
  std::filesystem::path lock_;
  bool made_;
  Fd file_;
};

}  // namespace mn::data
