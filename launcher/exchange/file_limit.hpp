/// The limit of open files, while the ranks of a node connect to their leader.
#pragma once

#include <cstddef>
#include <string>

#include <sys/resource.h>

namespace mn::launcher {

/// While it lives, the soft limit has room for two descriptors for each of `ranks`, a connection and its duplicate, if
/// the hard limit allows. The destructor restores the limit: programs with select(2) need a low one.
class FileLimit {
 public:
  explicit FileLimit(std::size_t ranks);
  ~FileLimit();
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

  /// Why there is no room; empty if there is.
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  /// The lowest number for a duplicate that stays open in the program: under a raised limit, lower numbers stay free
  /// for the program.
  [[nodiscard]] int least_kept() const noexcept { return least_kept_; }

 private:
  rlimit before_ = {};
  bool is_raised_ = false;
  int least_kept_ = 0;
  std::string failure_;
};

}  // namespace mn::launcher
