/// Deals with errors of file servers and of the node's copies in one read of samples. First try_all() reads many files
/// at once; then attempt() repeats failed reads file by file, with retries.
///
/// (1) If the node's copy of a file can't be read or is damaged, the read uses the file on shared storage.
/// (2) try_all() drops errors, because attempt() repeats the work and reports the error.
/// (3) After an error that may be temporary (may_pass()), the file is opened and read again.
/// (4) All files of the read share one series of kRetryPauses. After the last pause, a file that failed in try_all() is
///     given up without an attempt, because an attempt may take a minute to time out.
/// (5) A read does not try again a file that it has given up.
#pragma once

#include <cassert>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

#include <mn/core/error.hpp>
#include <mn/data/open_files.hpp>
#include <mn/data/retry.hpp>

namespace mn::data {

/// The attempts of one read. Only one thread at a time may call members.
class ReadAttempts {
 public:
  explicit ReadAttempts(OpenFiles& files) : files_(files) {}

  /// Calls task(0) … task(n − 1) on many threads; task(i) reads the file numbered file_of(i). Drops errors. Does
  /// nothing if n < 2: attempt() then does the work.
  template <class FileOf, class Task>
  void try_all(std::size_t n, const FileOf& file_of, const Task& task) {
    if (n < 2) return;
    std::mutex mutex;  // guards failed_
    files_.pool().run(n, [&](std::size_t i) {
      if (given_up_.contains(file_of(i))) return;
      try {
        task(i);
      } catch (const FileError& error) {
        const std::lock_guard lock(mutex);
        if (may_pass(error)) failed_.insert_or_assign(file_of(i), error);
      } catch (...) {  // attempt() repeats the task and reports the error
      }
    });
  }

  /// Opens the file and calls use(opened, is_copy); `is_copy` tells whether `opened` is the node's copy. Retries after
  /// each error that may be temporary. Returns the last error if the file is given up, else no value. Throws all other
  /// errors of `use`.
  template <class Use>
  [[nodiscard]] std::optional<FileError> attempt(std::size_t file, const Use& use) {
    if (const auto error = given_up_.find(file); error != given_up_.end()) return error->second;
    if (const auto error = failed_.find(file); error != failed_.end() && pauses_ == kRetryPauses.size()) {
      return given_up_.insert(*error).first->second;  // an attempt may take a minute to time out
    }
    try {
      with_retries([&] { use_any(file, use); }, [&] { close(file); }, pauses_);
      failed_.erase(file);
      return std::nullopt;
    } catch (const FileError& error) {
      if (!may_pass(error)) throw;
      assert(pauses_ == kRetryPauses.size());  // given up only after the last pause
      return given_up_.emplace(file, error).first->second;
    }
  }

 private:
  /// Calls use() with the node's copy. If there is none, or use() throws DataError, calls use() with the file on
  /// storage.
  template <class Use>
  void use_any(std::size_t file, const Use& use) {
    const OpenFiles::Opened from = opened(file);
    try {
      use(*from.file, from.is_copy);
    } catch (const DataError& error) {
      if (!from.is_copy) throw;
      files_.drop_copy(file, error.what());  // from now on reads use the file on storage
      last_ = {};
      use(*opened(file).file, false);
    }
  }

  /// Returns the open file. Consecutive samples often lie in one file, so the last file is not looked up in the cache.
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
  std::map<std::size_t, FileError> failed_;    // files that failed in try_all()
  std::map<std::size_t, FileError> given_up_;  // files that attempt() gave up
  std::size_t pauses_ = 0;                     // number of kRetryPauses taken by the read so far
  OpenFiles::Opened last_;                     // the file that attempt() opened last
  std::size_t last_number_ = 0;
};

}  // namespace mn::data
