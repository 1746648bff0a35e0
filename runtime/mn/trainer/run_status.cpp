#include <mn/trainer/run_status.hpp>

#include <algorithm>
#include <cerrno>
#include <iomanip>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/unix_time.hpp>

namespace mn {
namespace {

constexpr int kPeriodFactor = 100;  // least time between two writes / time that a write takes

/// Opens an empty file that only its owner may read. In a folder to which everybody may write, somebody may have made
/// `path` a link to one of our files, or a pipe that blocks open(). In this case returns no descriptor, and sets errno.
Fd open_private(const std::string& path) {
  Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat facts = {};
  if (!file || fstat(file.get(), &facts) != 0) return Fd();
  if (!S_ISREG(facts.st_mode) || facts.st_nlink != 1) {
    errno = EPERM;
    return Fd();
  }
  [[maybe_unused]] const int emptied = ftruncate(file.get(), 0);
  return file;
}

}  // namespace

RunStatus::RunStatus(bool writes) {
  up_at_ = unix_time();
  const auto path = writes ? environment("MN_STATUS_FILE") : std::nullopt;
  if (!path) return;
  file_ = open_private(*path);
  if (!file_) log_warning(with_errno("MN_STATUS_FILE: cannot write " + *path, errno));
}

void RunStatus::began(std::int64_t iteration) {
  began_ = iteration_ = saved_ = iteration;
  loaded_at_ = unix_time();
  stepped_at_ = 0;
  write();
}

void RunStatus::stepped(std::int64_t iteration) {
  iteration_ = iteration;
  const bool first = stepped_at_ == 0;
  if (first) stepped_at_ = unix_time();
  if (first || Clock::now() - written_ >= kPeriodFactor * cost_) write();
}

void RunStatus::saved(std::int64_t iteration) {
  iteration_ = std::max(iteration_, iteration);  // maximum, because the save of an earlier iteration may end only now
  saved_ = iteration;
  write();
}

/// Writes all lines at once, with a fixed length, so that readers see either the old lines or the new lines.
void RunStatus::write() {
  if (!file_) return;
  OutText lines;
  lines << std::left << std::fixed << std::setprecision(3);
  const auto add = [&](const char* name, auto value) { lines << name << ' ' << std::setw(20) << value << '\n'; };
  add("began", began_);
  add("iteration", iteration_);
  add("saved", saved_);
  add("up", up_at_);
  add("loaded", loaded_at_);
  add("stepped", stepped_at_);
  const std::string text = lines.str();
  const auto begin = Clock::now();
  [[maybe_unused]] const auto written = pwrite(file_.get(), text.data(), text.size(), 0);
  const bool is_first = written_ == Clock::time_point{};
  written_ = Clock::now();
  // The cost is the time of the fastest write so far, because load on the machine delays some writes.
  cost_ = is_first ? written_ - begin : std::min(cost_, written_ - begin);
}

}  // namespace mn
