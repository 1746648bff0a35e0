// A file is replaced in three steps: write the new content to a file beside the old file, sync the new file, and rename
// it. rename(2) replaces the old file atomically.

#include <mn/core/file.hpp>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/kernel_random.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 30;  // one read or write call moves less than 2 GiB

[[noreturn]] void fail(const std::string& doing, const std::filesystem::path& path) {
  throw FileError(with_errno("cannot " + doing + " " + path.string(), errno), errno);
}

/// The flags of open(2), in the order of File::Mode. Without O_NONBLOCK, opening a pipe would wait for a writer.
constexpr int kFlags[] = {O_RDONLY | O_NONBLOCK, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, O_RDWR,
                          O_WRONLY | O_CREAT | O_TRUNC, O_WRONLY | O_CREAT | O_EXCL};

/// Turns O_NONBLOCK off, because with it some network file systems return EAGAIN to readers.
void wait_in_reads(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

constexpr std::string_view kTemporaryEnd = "tmp";
constexpr auto kAbandonedAfter = std::chrono::hours(1);  // since the last write by a writer on another host

/// Returns a random name, so in a shared folder another user cannot place a link under this name in advance.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  std::uint64_t number = 0;
  draw_random(std::as_writable_bytes(std::span(&number, 1)));
  return path.parent_path() / ("." + path.filename().string() + "." + host_name() + "." + std::to_string(::getpid()) +
                               "." + to_hex(number) + "." + std::string(kTemporaryEnd));
}

struct Writer {
  bool is_local;
  pid_t process;
};

/// Parses a name that temporary_beside() has made; no value for any other name.
std::optional<Writer> writer_of(std::string_view name) {
  constexpr std::size_t kNumberDigits = 16;
  const auto parts = split(name, '.');  // "", the file's name (which may have dots), host, process, number, "tmp"
  if (parts.size() < 6 || !parts.front().empty() || parts.back() != kTemporaryEnd) return std::nullopt;
  const auto last = parts.rbegin();
  const std::string_view number = last[1], host = last[3];
  const auto process = parse_number<pid_t>(last[2]);
  const bool is_number =
      number.size() == kNumberDigits && number.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  if (!is_number || !process || *process <= 0) return std::nullopt;
  return Writer{host == host_name(), *process};
}

bool is_abandoned(const std::filesystem::path& path) {
  const auto writer = writer_of(path.filename().string());
  if (!writer) return false;
  if (writer->is_local) return ::kill(writer->process, 0) != 0 && errno == ESRCH;
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  return !error && std::filesystem::file_time_type::clock::now() - written > kAbandonedAfter;
}

}  // namespace

File::File(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  fd_ = Fd(::open(path_.c_str(), kFlags[static_cast<std::size_t>(mode)] | O_CLOEXEC, 0666));
  if (!fd_) fail(mode == Mode::kReplace || mode == Mode::kNew ? "create" : "open", path_);
  struct stat facts = {};
  if (::fstat(fd_.get(), &facts) != 0) fail("stat", path_);
  if (S_ISREG(facts.st_mode)) {
    if (mode == Mode::kRead || mode == Mode::kReadInPlace) wait_in_reads(fd_.get());
    return;
  }
  throw DataError("cannot open " + path_.string() +
                  (S_ISDIR(facts.st_mode) ? ": it is a folder" : ": it is not a regular file"));
}

File::File(int fd, std::uint64_t begin, std::uint64_t bytes, std::filesystem::path path)
    : path_(std::move(path)), fd_(::fcntl(fd, F_DUPFD_CLOEXEC, 0)), begin_(begin), bytes_(bytes) {
  if (!fd_) fail("open", path_);
}

std::uint64_t File::size() const {
  if (bytes_) return *bytes_;
  struct stat facts = {};
  if (::fstat(fd_.get(), &facts) != 0) fail("stat", path_);
  return static_cast<std::uint64_t>(facts.st_size);
}

void File::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::uint64_t left = bytes_ ? *bytes_ - std::min(offset, *bytes_) : kPiece;
    const ssize_t n = ::pread(fd_.get(), out.data(), std::min({out.size(), kPiece, static_cast<std::size_t>(left)}),
                              static_cast<off_t>(begin_ + offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path_);
    if (n == 0) throw DataError(path_.string() + " is truncated: it ends at byte " + std::to_string(offset));
    out = out.subspan(n);
    offset += n;
  }
}

void File::read_nothing_ahead() const noexcept { ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_RANDOM); }

void File::will_read(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  ::posix_fadvise(fd_.get(), static_cast<off_t>(begin_ + offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

void File::write_at(std::uint64_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t n =
        ::pwrite(fd_.get(), data.data(), std::min(data.size(), kPiece), static_cast<off_t>(begin_ + offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", path_);
    data = data.subspan(n);
    offset += n;
  }
}

void File::replace_end(std::uint64_t offset, std::string_view before, std::string_view after) {
  const auto put = [&](std::string_view end) {
    write_at(offset, std::as_bytes(std::span(end)));
    if (::ftruncate(fd_.get(), static_cast<off_t>(offset + end.size())) != 0) fail("write", path_);
  };
  const int reserved =
      ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(after.size()));
  if (reserved != 0 && (errno == ENOSPC || errno == EDQUOT)) fail("write", path_);
  try {
    put(after);
  } catch (const FileError&) {
    try {
      put(before);
    } catch (const FileError&) {  // the first error is thrown, because it says more
    }
    throw;
  }
}

void File::sync() {
  if (::fsync(fd_.get()) != 0) fail("write to storage", path_);
}

TemporaryFile::TemporaryFile(std::filesystem::path path)
    : final_(std::move(path)), temporary_(temporary_beside(final_)) {
  struct stat facts = {};
  if (::stat(final_.c_str(), &facts) != 0 || S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode)) return;
  throw DataError(final_.string() + " is a device, a pipe or a socket, which a file can't replace: name a file");
}

TemporaryFile::~TemporaryFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void TemporaryFile::publish() {
  assert(!temporary_.empty());  // publish() is called only once
  File(temporary_, File::Mode::kUpdate).sync();
  if (std::rename(temporary_.c_str(), final_.c_str()) != 0) fail("rename", temporary_);
  temporary_.clear();
  sync_folder(final_.parent_path());
}

void remove_abandoned_files(const std::filesystem::path& folder) {
  std::error_code error;  // ignored, because another job may remove the same files
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    std::error_code failed;
    if (is_abandoned(each->path())) std::filesystem::remove(each->path(), failed);
  }
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void sync_folder(const std::filesystem::path& folder) {
  const Fd entry(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!entry && errno == EACCES) return;  // the process may write to the folder but not list it
  if (!entry) fail("open", folder);
  if (::fsync(entry.get()) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EBADF) {
    fail("write to storage", folder);
  }
}

bool make_folders(const std::filesystem::path& folder) {
  std::error_code none;
  if (folder.empty() || std::filesystem::is_directory(folder, none)) return false;
  make_folders(folder.parent_path());
  if (::mkdir(folder.c_str(), 0777) != 0) {
    const int error = errno;
    // mkdir() also fails if a different process has just made the folder, or if the folder's name ends with "/".
    // Neither case is an error here.
    if (std::filesystem::is_directory(folder, none)) return false;
    throw FileError(with_errno("cannot make the folder " + folder.string(), error), error);
  }
  sync_folder(folder.parent_path());
  return true;
}

std::string read_file(const std::filesystem::path& path) {
  const File file(path, File::Mode::kRead);
  std::string content(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(content)));
  return content;
}

}  // namespace mn
