// A process without other ranks locks the file exclusively. In a job, the first rank locks exclusively, writes the
// job's name into the file, and changes the lock to a shared lock, which all ranks hold.
//
// (1) A lock of flock(2) belongs to the open file, so a killed process leaves the lock file but no lock.
// (2) The last holder removes the lock file before closing it. A process that has locked a removed file sees that the
//     path has another inode, and tries again. So two processes never hold the lock exclusively at the same time.
// (3) A process that shares the lock reads the job's name in the file: that job holds the lock, or has just released
//     it. Ranks of a job wait a moment for another job to release it; a process without other ranks does not wait.
// (4) On file systems without locks (ENOLCK, EOPNOTSUPP) no process is locked out.
#include "data/locked_folder.hpp"

#include <cerrno>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/lock_file.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(3);
constexpr auto kLockPause = std::chrono::milliseconds(20);

std::string text_of(const Fd& file) {
  char text[512];
  const ssize_t n = ::pread(file.get(), text, sizeof text, 0);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
}

/// The text by which ranks recognize their own job's lock; empty for a process without other ranks.
std::string mark_of(const JobRank& me) {
  return me.size == 1 ? "" : std::to_string(me.size) + " ranks of " + me.job.substr(0, 256);
}

enum class Lock { kHeld, kNone, kOthers, kRemoved };

/// Locks the file exclusively. If `mark` is not empty, writes it into the file and changes to a shared lock.
Lock take(const Fd& file, const fs::path& path, const std::string& mark) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? Lock::kOthers : Lock::kNone;
  if (!is_file_at(path, file).value_or(false)) return Lock::kRemoved;
  if (mark.empty()) return Lock::kHeld;
  const bool written = ::ftruncate(file.get(), 0) == 0 && ::pwrite(file.get(), mark.data(), mark.size(), 0) >= 0;
  // The change is not atomic: it fails if another process takes the lock in between.
  return written && ::flock(file.get(), LOCK_SH | LOCK_NB) == 0 ? Lock::kHeld : Lock::kOthers;
}

/// Shares the lock of this job's first rank. Returns Lock::kOthers if another job holds the lock.
Lock share(const Fd& file, const fs::path& path, const std::string& mark) {
  if (mark.empty() || ::flock(file.get(), LOCK_SH | LOCK_NB) != 0) return Lock::kOthers;
  if (!is_file_at(path, file).value_or(false)) return Lock::kRemoved;
  return text_of(file) == mark ? Lock::kHeld : Lock::kOthers;
}

Fd locked(const fs::path& path, const std::string& mark) {
  const auto deadline = steady_clock::now() + (mark.empty() ? steady_clock::duration(0) : kPatience);
  while (true) {
    Fd file = open_lock_file(path, O_CREAT, 0666);
    if (!file) throw DataError(with_errno("cannot create " + path.string(), errno));
    Lock lock = take(file, path, mark);
    if (lock == Lock::kOthers) lock = share(file, path, mark);
    if (lock == Lock::kHeld || lock == Lock::kNone) return file;
    file.reset();
    if (lock == Lock::kRemoved) continue;  // the last holder has just removed the file
    if (steady_clock::now() >= deadline) {
      throw UsageError("another mnshard is writing into " + path.parent_path().string() +
                       ": wait for it, or choose another folder with --out");
    }
    std::this_thread::sleep_for(kLockPause);
  }
}

}  // namespace

LockedFolder::LockedFolder(fs::path folder, const JobRank& me)
    : folder_(std::move(folder)),
      lock_(folder_ / ".mnshard.lock"),
      made_(make_folders(folder_)),
      file_(locked(lock_, mark_of(me))) {}

LockedFolder::~LockedFolder() {
  const bool others = ::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!others && is_file_at(lock_, file_).value_or(false)) ::unlink(lock_.c_str());
  file_.reset();
  if (made_) ::rmdir(folder_.c_str());  // only if it is empty
}

}  // namespace mn::data
