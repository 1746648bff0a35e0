/// How one read of samples copes with file servers in trouble and with copies that fail: many files at once as long as
/// all is well, then one by one with retries.
///
/// (1) If a copy on the node fails or is damaged, the read uses the file itself.
/// (2) try_all() drops errors: attempt() repeats the work and reports the error.
/// (3) An error that may pass is retried, each time with the file opened again, as a stale handle stays stale.
/// (4) All files together wait for the pauses of one file. Afterwards a file that failed in try_all() is given up
///     without another attempt, which could take a minute until it times out.
/// (5) A read does not try a file again after it was given up.
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

/// The attempts of one read. Only one thread at a time calls members.
class ReadAttempts {
 public:
  explicit ReadAttempts(OpenFiles& files) : files_(files) {}

  /// Calls task(0) … task(n − 1), each for file_of(i), on many threads. Drops errors.
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
      } catch (...) {  // (2): attempt() repeats it
      }
    });
  }

  /// Calls use(the file, whether the file is a copy on the node) until there is no error that may pass. Returns the
  /// last error if the file is given up. Throws all other errors of `use`.
  template <class Use>
  [[nodiscard]] std::optional<FileError> attempt(std::size_t file, const Use& use) {
    if (const auto error = given_up_.find(file); error != given_up_.end()) return error->second;
    if (const auto error = failed_.find(file); error != failed_.end() && pauses_ == kRetryPauses.size()) {
      return given_up_.insert(*error).first->second;  // (4)
    }
    try {
      with_retries([&] { use_any(file, use); }, [&] { close(file); }, pauses_);
      failed_.erase(file);
      return std::nullopt;
    } catch (const FileError& error) {
      if (!may_pass(error)) throw;
      assert(pauses_ == kRetryPauses.size());  // (4)
      return given_up_.emplace(file, error).first->second;
    }
  }

 private:
  /// Calls use() with the copy, or with the file itself where the copy can't be used.
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

  /// Most samples lie in the file of the sample before: that file needs no look into the cache.
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
  std::map<std::size_t, FileError> failed_;    // in try_all()
  std::map<std::size_t, FileError> given_up_;  // by attempt()
  std::size_t pauses_ = 0;                     // number of kRetryPauses taken
  OpenFiles::Opened last_;                     // the file used last
  std::size_t last_number_ = 0;
};

}  // namespace mn::data
