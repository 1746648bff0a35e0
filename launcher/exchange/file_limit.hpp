/// How many files this process may have open while the ranks of its node connect to it.
#pragma once

#include <cstddef>
#include <string>

#include <sys/resource.h>

namespace mn::launcher {

/// While it lives, the soft limit leaves room for one connection to each of `ranks` and a duplicate of it, if the hard
/// limit does. Afterwards the limit is what it was: programs that use select(2) count on that.
class FileLimit {
 public:
  explicit FileLimit(std::size_t ranks);
  ~FileLimit();
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

  /// Why there is no room; empty if there is.
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  /// The least number of a duplicate, which stays open in the program. If the limit was raised, the program has most of
  /// the numbers below, or all, for itself.
  [[nodiscard]] int least_kept() const noexcept { return least_kept_; }

 private:
  rlimit before_ = {};
  bool is_raised_ = false;
  int least_kept_ = 0;
  std::string failure_;
};

}  // namespace mn::launcher
