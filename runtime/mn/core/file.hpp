/// Reads and writes whole files. Replaces files atomically: a process that reads a file sees either the old content or
/// the new content, never a mixture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <mn/core/fd.hpp>

namespace mn {

/// An open file. Its functions throw a DataError that names the file and the cause; FileError for errors of the system.
class File {
 public:
  enum class Mode {
    kRead,
    kReadInPlace,  ///< read; a symbolic link is an error, whatever its target
    kUpdate,       ///< read and write an existing file
    kReplace,      ///< write; the file is emptied if it exists, and created if not
    kNew,          ///< write; the file is created; an error if it exists
  };

  File() noexcept = default;
  File(std::filesystem::path path, Mode mode);
  /// Opens the bytes [begin, begin + bytes) of the open file `fd` as a file, which error messages call `path`.
  File(int fd, std::uint64_t begin, std::uint64_t bytes, std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size() const;
  /// Fills `out` with the bytes from `offset` on. Throws if the file ends earlier. Thread-safe.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  void read_nothing_ahead() const noexcept;
  /// Asks the system to read these bytes soon; returns at once. Thread-safe.
  void will_read(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  void write_at(std::uint64_t offset, std::span<const std::byte> data);
  /// Replaces the end of the file, which begins at `offset` and holds `before`, by `after`. Readers see `before` or
  /// `after`. Room is reserved first, if the file system can reserve it. If writing fails, writes `before` back.
  void replace_end(std::uint64_t offset, std::string_view before, std::string_view after);
  void sync();

 private:
  std::filesystem::path path_;
  Fd fd_;
  std::uint64_t begin_ = 0;             // offset of this part in the open file
  std::optional<std::uint64_t> bytes_;  // size of this part; no value for a whole file
};

/// A private file beside the file `path`, named .NAME.HOST.PID.NUMBER.tmp, in which a writer prepares the new content
/// of `path`. If several writers call publish(), the content of the last writer stays. The destructor removes the file
/// unless publish() was called.
class TemporaryFile {
 public:
  /// Throws DataError if `path` is a device, a FIFO or a socket, or a link to one of these.
  explicit TemporaryFile(std::filesystem::path path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return temporary_; }
  /// Renames the file to `path` and waits until it is on stable storage. After a crash the file has either the old
  /// content or the new content. Throws the errors of File.
  void publish();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
};

/// Removes from `folder` the files of TemporaryFile whose writer was killed: on this host, if the process is dead; on a
/// different host, if the file has not been written to for an hour. Files that can't be removed stay.
void remove_abandoned_files(const std::filesystem::path& folder);

class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path)
      : temporary_(std::move(path)), file_(temporary_.path(), File::Mode::kReplace) {}

  void write(std::span<const std::byte> bytes) {
    file_.write_at(written_, bytes);
    written_ += bytes.size();
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Replaces the old file by the written file. If commit() is not called, the old file stays.
  void commit() { temporary_.publish(); }

 private:
  TemporaryFile temporary_;
  File file_;
  std::uint64_t written_ = 0;
};

void write_file(const std::filesystem::path& path, std::string_view content);

/// Waits until all changes in the list of files of `folder` (files made, renamed or removed) are on stable storage.
/// Returns at once if the file system cannot sync folders, or if the process may not list the folder. Throws FileError
/// if the system fails.
void sync_folder(const std::filesystem::path& folder);

/// Creates the folder and its parents. True if the folder was missing. Throws DataError if the folder can't be created.
bool make_folders(const std::filesystem::path& folder);

[[nodiscard]] std::string read_file(const std::filesystem::path& path);

}  // namespace mn
