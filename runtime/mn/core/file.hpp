/// Whole files: read at once, and written so that a reader sees the old content or the new, never a part.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mn {

/// A file that appears under its name with commit(), complete and on stable storage, whatever stops the process or the
/// machine. Written beside its place as .NAME.tmp; one writer at a time. Errors: mn::Error that names file and cause.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  /// Without commit(), the old file stays.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Flushes to storage, renames, and flushes the folder.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& doing, int error_number);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  bool committed_ = false;
};

/// Replaces the file's content, atomically.
void write_file(const std::filesystem::path& path, std::string_view content);

/// The whole content. Throws DataError if it can't be read.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

}  // namespace mn
