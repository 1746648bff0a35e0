/// The folder that a conversion writes to, and that no other one may.
#pragma once

#include <filesystem>
#include <string>

#include <mn/core/fd.hpp>
#include <mn/core/ranks.hpp>

namespace mn::data {

/// Makes the folder if there is none, and keeps other conversions out of it until destroyed. Ranks of one job are in it
/// together. The lock is flock(2)'s, on a file in the folder: a killed process leaves none behind. Where the file
/// system knows no locks there is none.
class LockedFolder {
 public:
  /// Throws UsageError if another conversion is in the folder.
  LockedFolder(std::filesystem::path folder, const JobRank& me);
  ~LockedFolder();
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_; }

 private:
  std::filesystem::path folder_;
  std::filesystem::path lock_;
  bool made_;
  Fd file_;
};

/// Throws UsageError if `split` can't begin the names of files.
void check_split_name(const std::string& split);

}  // namespace mn::data
