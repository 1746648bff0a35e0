/// A file without a name on a disk of the node, for the processes of one job there.
#pragma once

#include <filesystem>
#include <string>

#include <mn/core/fd.hpp>

namespace mn::data {

/// (1) The file has no name that another user could foresee, replace or follow, and no other user can open it.
/// (2) The system frees its room when the last process with the file open ends, however that process ends.
class StageFile {
 public:
  /// Makes a file in `folder`, and the folder if it is missing. Throws FileError or DataError.
  [[nodiscard]] static StageFile make(const std::filesystem::path& folder);
  /// Opens the file of another process of this node by its handle(); that process must still hold it. Throws as make().
  [[nodiscard]] static StageFile open(const std::string& handle);

  [[nodiscard]] std::string handle() const;
  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  StageFile(Fd fd, std::filesystem::path folder) : fd_(std::move(fd)), folder_(std::move(folder)) {}

  Fd fd_;
  std::filesystem::path folder_;
};

}  // namespace mn::data
