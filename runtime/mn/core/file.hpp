/// Reads and writes whole files, and replaces files atomically, so that a process that reads a file sees either the old
/// content or the new content, never a mixture.
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

/// An open file. Its functions throw a DataError that names the file and the cause, or a FileError if the system gave a
/// reason.
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
  /// Presents the bytes [begin, begin + bytes) of the open file `fd` as a file of their own. Messages name this part
  /// `path`.
  File(int fd, std::uint64_t begin, std::uint64_t bytes, std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size() const;
  /// Fills `out` with the bytes of the file from `offset` on. Throws if the file ends earlier. Thread-safe.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  /// Asks the system not to read ahead in this file.
  void read_nothing_ahead() const noexcept;
  /// Asks the system to read these bytes soon; returns at once. Thread-safe.
  void will_read(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  void write_at(std::uint64_t offset, std::span<const std::byte> data);
  /// Replaces the end of the file, which begins at `offset` and holds the text `before`, by the text `after`. A process
  /// that reads the file sees `before` or `after`. If the file system can reserve room, room is reserved first. If
  /// writing fails, `before` is written back.
  void replace_end(std::uint64_t offset, std::string_view before, std::string_view after);
  /// Returns when the content is on stable storage.
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

/// Removes from `folder` the temporary files whose writer was killed (TemporaryFile). A file of this host is removed if
/// its process is dead; a file of a different host is removed if it has not been written to for an hour. Files that
/// can't be removed stay.
void remove_abandoned_files(const std::filesystem::path& folder);

/// A TemporaryFile that is written from its beginning to its end.
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

/// Replaces the file's content, atomically.
void write_file(const std::filesystem::path& path, std::string_view content);

/// Returns when all changes in the list of files of `folder` (files made, renamed or removed) are on stable storage.
/// Throws FileError if the system fails. If the file system cannot sync folders, or the process may not list the
/// folder, returns without an error.
void sync_folder(const std::filesystem::path& folder);

/// Creates the folder and its parents. True if the folder was missing. Throws DataError if the folder can't be created.
bool make_folders(const std::filesystem::path& folder);

[[nodiscard]] std::string read_file(const std::filesystem::path& path);

}  // namespace mn
