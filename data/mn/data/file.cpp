#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/data/file.hpp>

namespace mn::data {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 30;  // one read or write call moves less than 2 GiB

[[noreturn]] void fail(const std::string& what) { throw DataError(with_errno(what, errno)); }

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // the rename itself is done; only its durability is not known
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

File::File(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  const int flags = mode == Mode::kRead ? O_RDONLY : O_RDWR | O_CREAT;
  fd_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot open " + path_.string());
}

void File::close() noexcept {
  if (const int fd = std::exchange(fd_, -1); fd >= 0) ::close(fd);
}

std::uint64_t File::size() const {
  struct stat facts = {};
  if (::fstat(fd_, &facts) != 0) fail("cannot stat " + path_.string());
  return static_cast<std::uint64_t>(facts.st_size);
}

void File::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), std::min(out.size(), kPiece), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read " + path_.string());
    if (n == 0) throw DataError(path_.string() + " is truncated: it ends at byte " + std::to_string(offset));
    out = out.subspan(n);
    offset += n;
  }
}

void File::write_at(std::uint64_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t n = ::pwrite(fd_, data.data(), std::min(data.size(), kPiece), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write " + path_.string());
    data = data.subspan(n);
    offset += n;
  }
}

void File::sync() {
  if (::fsync(fd_) != 0) fail("cannot write " + path_.string() + " to storage");
}

TemporaryFile::TemporaryFile(std::filesystem::path path)
    : final_(std::move(path)),
      temporary_(final_.parent_path() / ("." + final_.filename().string() + ".tmp-" + std::to_string(::getpid()))) {}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
}

void TemporaryFile::publish() {
  File(temporary_, File::Mode::kUpdate).sync();
  if (::rename(temporary_.c_str(), final_.c_str()) != 0) fail("cannot rename " + temporary_.string());
  temporary_.clear();
  sync_folder(final_.parent_path());
}

}  // namespace mn::data
