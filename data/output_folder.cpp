// The lock on a folder that is being written.
//
// (1) flock(2) belongs to the open file, so a killed process leaves no lock behind, only an empty file.
// (2) The holder removes the lock file before it closes it. A waiter that locks a removed file compares inodes and
//     tries again: two holders never coexist.
// (3) Where the file system has no locks (ENOLCK, EOPNOTSUPP) there is no exclusion.
#include "data/output_folder.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

fs::path made(const ConvertOptions& options) {
  const std::string& split = options.split;
  if (split.empty() || split.front() == '.' || split.find('/') != std::string::npos) {
    throw UsageError("the split's name begins the names of its files: --split can't be \"" + split + "\"");
  }
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) throw DataError("cannot make the folder " + options.out.string() + ": " + error.message());
  return options.out;
}

bool same_file(int fd, const fs::path& path) {
  struct stat ours = {}, there = {};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

int locked(const fs::path& path) {
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) throw DataError(with_errno("cannot create " + path.string(), errno));
    const bool none = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
    if (none && errno == EWOULDBLOCK) {
      ::close(fd);
      throw UsageError("another mnshard is writing into " + path.parent_path().string() +
                       ": wait for it, or choose another folder with --out");
    }
    if (none || same_file(fd, path)) return fd;  // none: ENOLCK, EOPNOTSUPP
    ::close(fd);                                 // the last holder's, who has just removed it
  }
}

}  // namespace

OutputFolder::OutputFolder(const ConvertOptions& options) : lock_(made(options) / ".mnshard.lock"), fd_(locked(lock_)) {
  std::error_code error;
  if (!fs::exists(options.out / kManifestName, error)) return;
  release();
  throw UsageError(options.out.string() + " holds a dataset already: remove it, or choose another folder with --out");
}

OutputFolder::~OutputFolder() { release(); }

void OutputFolder::release() noexcept {
  ::unlink(lock_.c_str());
  ::close(fd_);
}

}  // namespace mn::data
