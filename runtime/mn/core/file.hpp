/// Files: whole reads and writes, and new content that appears at once, so that a reader sees the old one or the new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace mn {

/// A file descriptor. Errors: DataError that names file and cause, FileError where the system gave a reason.
class File {
 public:
  enum class Mode {
    kRead,
    kReadInPlace,  ///< read; a symbolic link is an error, wherever it points
    kUpdate,       ///< read and write; it must be there
    kReplace,      ///< write; emptied, or made
    kNew,          ///< write; made here, an error if it is there
  };

  File() noexcept = default;
  File(std::filesystem::path path, Mode mode);
  /// Bytes [begin, begin + bytes) of an open file, as a file by itself; `path` names it in messages.
  File(int fd, std::uint64_t begin, std::uint64_t bytes, std::filesystem::path path);
  ~File() { close(); }
  File(File&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), begin_(other.begin_), bytes_(other.bytes_) {}
  File& operator=(File&& other) noexcept {
    if (this != &other) {
      close();
      path_ = std::move(other.path_);
      fd_ = std::exchange(other.fd_, -1);
      begin_ = other.begin_;
      bytes_ = other.bytes_;
    }
    return *this;
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size() const;
  /// Bytes [offset, offset + out.size()); a file that ends before is an error. Thread-safe.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  /// Has the system read no more than is asked for.
  void read_nothing_ahead() const noexcept;
  /// Has the system read these bytes soon, as far as it can; returns at once. Thread-safe.
  void will_read(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  void write_at(std::uint64_t offset, std::span<const std::byte> data);
  /// The file ends with `before` from `offset` on, and with `after` then; a reader sees one or the other. Room for it
  /// is reserved first where the file system can, and where the write fails, the file gets its end back.
  void replace_end(std::uint64_t offset, std::string_view before, std::string_view after);
  /// To stable storage.
  void sync();

 private:
  void close() noexcept;
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t begin_ = 0;             // within what was opened
  std::optional<std::uint64_t> bytes_;  // size, if it is a part
};

/// A name beside `path`, .NAME.HOST.PID.NUMBER.tmp, for what is to become `path`: each writer has its own, and the last
/// that publishes wins. Removes what lies there unless publish() was called.
class TemporaryFile {
 public:
  /// DataError where `path` is a device, a FIFO or a socket, or a link to one.
  explicit TemporaryFile(std::filesystem::path path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return temporary_; }
  /// Makes it `path`, complete and on stable storage, whatever stops the process or the machine. DataError as File's.
  void publish();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
};

/// Removes what writers that were killed have left in `folder`: TemporaryFiles of processes of this host that are gone,
/// and others that nobody has written to for an hour. What can't be removed stays.
void remove_abandoned_files(const std::filesystem::path& folder);

/// A TemporaryFile written from its beginning to its end.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path)
      : temporary_(std::move(path)), file_(temporary_.path(), File::Mode::kReplace) {}

  void write(std::span<const std::byte> bytes) {
    file_.write_at(written_, bytes);
    written_ += bytes.size();
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Without it the old file stays.
  void commit() { temporary_.publish(); }

 private:
  TemporaryFile temporary_;
  File file_;
  std::uint64_t written_ = 0;
};

/// Replaces the file's content, atomically.
void write_file(const std::filesystem::path& path, std::string_view content);

/// What was made, renamed or removed in `folder` is on stable storage when this returns. FileError if it can't be; file
/// systems that have no such call are taken at their word.
void sync_folder(const std::filesystem::path& folder);

/// Makes the folder and those above it; whether it had to be made. DataError if it can't be.
bool make_folders(const std::filesystem::path& folder);

/// The whole content.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

}  // namespace mn
