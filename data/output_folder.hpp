/// The folder that a dataset is made in.
#pragma once

#include <filesystem>

#include "data/convert.hpp"

namespace mn::data {

/// Makes the folder if there is none, and is its only writer until destroyed. The lock is flock(2)'s, on a file in the
/// folder: a killed process leaves none behind. Where the file system knows no locks there is none.
class OutputFolder {
 public:
  /// Throws UsageError if options.out holds a dataset already or has another writer, or if options.split can't begin
  /// the name of a file.
  explicit OutputFolder(const ConvertOptions& options);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  void release() noexcept;
  std::filesystem::path lock_;
  int fd_;
};

}  // namespace mn::data
