#include <cerrno>
#include <cstdio>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn {

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(path_.parent_path() / ("." + path_.filename().string() + ".tmp")) {
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("creating", errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!committed_) unlink(temporary_.c_str());
}

void AtomicFile::fail(const std::string& doing, int error_number) {
  throw Error(with_errno(doing + " " + path_.string(), error_number));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("writing", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (fsync(fd_) != 0) fail("flushing", errno);
  if (close(std::exchange(fd_, -1)) != 0) fail("closing", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("renaming to", errno);
  committed_ = true;
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const int folder_fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) fail("opening the folder of", errno);
  fsync(folder_fd);  // some file systems can't; the rename is atomic all the same
  close(folder_fd);
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::string read_file(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) throw DataError("reading " + path.string() + ": it is a folder");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff bytes = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (bytes < 0) throw DataError(with_errno("opening " + path.string(), errno));
  std::string content(static_cast<std::size_t>(bytes), '\0');
  file.seekg(0);
  if (!file.read(content.data(), bytes)) throw DataError(with_errno("reading " + path.string(), errno));
  return content;
}

}  // namespace mn
