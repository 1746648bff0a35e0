/// The files that a file server does not give during one read of many.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

#include <mn/core/error.hpp>
#include <mn/data/retry.hpp>

namespace mn::data {

/// (1) An error that may pass is retried, each time with the file opened again, as a stale handle stays stale.
/// (2) However many files fail, all their pauses together are those of one: once the server has had its time, a file
///     that failed among many is not tried again, as another attempt may take a minute until it times out.
/// (3) A file that is lost is not tried again.
class LostFiles {
 public:
  /// A first attempt, one of many at once, failed; attempt() decides. Thread-safe.
  void note(std::size_t file, const FileError& error) {
    const std::lock_guard lock(mutex_);
    failed_.insert_or_assign(file, error);
  }

  /// Whether attempt() has given it up. Thread-safe while nobody is in attempt().
  [[nodiscard]] bool is_lost(std::size_t file) const { return lost_.contains(file); }

  /// Calls use() until it does not fail with an error that may pass, recover() before each further time. What the
  /// system said if that stays: the file is lost. Throws what else use() throws. One thread at a time.
  template <class Use, class Recover>
  [[nodiscard]] std::optional<FileError> attempt(std::size_t file, const Use& use, const Recover& recover) {
    if (const auto lost = lost_.find(file); lost != lost_.end()) return lost->second;
    if (const auto failed = failed_.find(file); failed != failed_.end() && pauses_ == kRetryPauses.size()) {
      return lost_.insert(*failed).first->second;  // (2): the pauses are used up
    }
    try {
      with_retries(use, recover, pauses_);
      failed_.erase(file);
      return std::nullopt;
    } catch (const FileError& error) {
      if (!may_pass(error)) throw;
      return lost_.emplace(file, error).first->second;
    }
  }

 private:
  std::mutex mutex_;                         // guards failed_ while note() may be called
  std::map<std::size_t, FileError> failed_;  // what note() was told
  std::map<std::size_t, FileError> lost_;
  std::size_t pauses_ = 0;  // taken, of kRetryPauses
};

}  // namespace mn::data
