#include "exchange/file_limit.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace mn::launcher {
namespace {

constexpr std::size_t kOthers = 32;  // connections to other nodes, and files of this process

std::size_t open_files() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

FileLimit::FileLimit(std::size_t ranks) {
  if (getrlimit(RLIMIT_NOFILE, &before_) != 0) return;
  const rlim_t needed = open_files() + 2 * ranks + kOthers;
  if (needed <= before_.rlim_cur) return;
  const rlim_t limit = std::min(std::max(needed, before_.rlim_cur + ranks), before_.rlim_max);
  const rlimit raised = {.rlim_cur = limit, .rlim_max = before_.rlim_max};
  is_raised_ = needed <= limit && setrlimit(RLIMIT_NOFILE, &raised) == 0;
  if (is_raised_) {
    least_kept_ = static_cast<int>(std::min(before_.rlim_cur, limit - ranks));
  } else {
    failure_ = "the first rank of a node with " + std::to_string(ranks) + " ranks needs " + std::to_string(needed) +
               " open files, and may have " + std::to_string(before_.rlim_max) +
               "; raise the limit (ulimit -Hn; LimitNOFILE in slurmd.service)";
  }
}

FileLimit::~FileLimit() {
  if (is_raised_) setrlimit(RLIMIT_NOFILE, &before_);
}

}  // namespace mn::launcher
