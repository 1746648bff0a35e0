/// A file descriptor and whole reads and writes through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace mn::data {

class File {
 public:
  enum class Mode { kRead, kUpdate };

  File() noexcept = default;
  /// Throws DataError with the system's reason.
  File(std::filesystem::path path, Mode mode);
  ~File() { close(); }
  File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    if (this != &other) {
      close();
      path_ = std::move(other.path_);
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size() const;
  /// Bytes [offset, offset + out.size()). Throws DataError with the system's reason, or "is truncated". Thread-safe.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  void write_at(std::uint64_t offset, std::span<const std::byte> data);
  /// To stable storage.
  void sync();

 private:
  void close() noexcept;
  std::filesystem::path path_;
  int fd_ = -1;
};

/// A name beside `path` for what is to become `path`; removes what lies there unless publish() was called.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return temporary_; }
  /// Makes it `path`, at once and for good: sync, rename, sync of the folder. Whoever looks sees all of it or nothing.
  void publish();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
};

}  // namespace mn::data
