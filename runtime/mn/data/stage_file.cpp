// O_TMPFILE makes a file that never has a name. On file systems without O_TMPFILE, mkostemp makes a file under a random
// name (O_EXCL, mode 0600), which is removed at once. Other processes of the node open the file through /proc, which
// permits only the same user.
#include <mn/data/stage_file.hpp>

#include <cerrno>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

struct stat facts_of(int fd, const std::string& path) {
  struct stat facts = {};
  if (::fstat(fd, &facts) != 0) throw FileError(with_errno("cannot stat " + path, errno), errno);
  return facts;
}

}  // namespace

StageFile StageFile::make(const fs::path& folder) {
  make_folders(folder);
  Fd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = (folder / ".mn-stage-XXXXXX").string();
    fd = Fd(::mkostemp(name.data(), O_CLOEXEC));
    const int error = errno;
    if (fd) ::unlink(name.c_str());
    errno = error;
  }
  if (!fd) throw FileError(with_errno("cannot make a file in " + folder.string(), errno), errno);
  return {std::move(fd), folder};
}

std::string StageFile::handle() const {
  const struct stat facts = facts_of(get(), folder_.string());
  OutText text;
  text << ::getpid() << ' ' << get() << ' ' << facts.st_dev << ' ' << facts.st_ino << ' ' << folder_.string();
  return text.str();
}

StageFile StageFile::open(const std::string& handle) {
  InText text(handle);
  pid_t process = 0;
  int number = -1;
  dev_t device = 0;
  ino_t inode = 0;
  std::string folder;
  text >> process >> number >> device >> inode;
  std::getline(text >> std::ws, folder);
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw FileError(with_errno("cannot open the file of process " + std::to_string(process), errno), errno);
  const struct stat facts = facts_of(fd.get(), path);
  if (facts.st_dev != device || facts.st_ino != inode) {  // the number belongs to another PID namespace
    throw DataError("process " + std::to_string(process) + " has another file: is it in another container?");
  }
  return {std::move(fd), folder};
}

}  // namespace mn::data
