/// The files that one read of samples uses: many at a time as long as all is well, and one by one with retries where
/// something failed.
///
/// (1) Where a copy on the node fails or is damaged, the file itself is read.
/// (2) What fails in try_all() is left to attempt(), which does it again and says why.
/// (3) A file that the server does not give (LostFiles) is tried no more in this read.
#pragma once

#include <cstddef>
#include <optional>

#include <mn/core/error.hpp>
#include <mn/data/lost_files.hpp>
#include <mn/data/open_files.hpp>

namespace mn::data {

class FilesOfRead {
 public:
  explicit FilesOfRead(OpenFiles& files) : files_(files) {}

  /// task(0) … task(n − 1), each for file_of(i), many at a time. Errors are dropped.
  template <class FileOf, class Task>
  void try_all(std::size_t n, const FileOf& file_of, const Task& task) {
    if (n < 2) return;
    files_.pool().run(n, [&](std::size_t i) {
      if (lost_.is_lost(file_of(i))) return;
      try {
        task(i);
      } catch (const FileError& error) {
        if (may_pass(error)) lost_.note(file_of(i), error);
      } catch (...) {  // (2): attempt() meets it again
      }
    });
  }

  /// use(the file, whether that is a copy on the node). Returns the error if the file server stays in trouble.
  template <class Use>
  [[nodiscard]] std::optional<FileError> attempt(std::size_t file, const Use& use) {
    return lost_.attempt(
        file, [&] { use_any(file, use); }, [&] { close(file); });
  }

 private:
  /// use() of the copy; where that cannot be used, of the file itself.
  template <class Use>
  void use_any(std::size_t file, const Use& use) {
    const OpenFiles::Opened from = opened(file);
    try {
      use(*from.file, from.is_copy);
    } catch (const DataError& error) {
      if (!from.is_copy) throw;
      files_.drop_copy(file, error.what());  // (1): the file itself from now on
      last_ = {};
      use(*opened(file).file, false);
    }
  }

  /// Most samples lie in the same file as the one before.
  OpenFiles::Opened opened(std::size_t file) {
    if (last_.file == nullptr || last_number_ != file) {
      last_ = files_.open(file);
      last_number_ = file;
    }
    return last_;
  }
  void close(std::size_t file) {
    last_ = {};
    files_.close(file);
  }

  OpenFiles& files_;
  LostFiles lost_;
  OpenFiles::Opened last_;  // the file that was used last
  std::size_t last_number_ = 0;
};

}  // namespace mn::data
