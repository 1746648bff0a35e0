/// The folder that a run writes to: made, found to be writable and to have room, and locked against other jobs.
///
/// Rank 0 makes one before training and holds it to its end.
///
/// Invariants:
/// 1. Two processes never hold the same folder. The lock is flock(2)'s on FOLDER/.lock, which ends with the process
///    however it ends. On a file system without locks, the file's owner counts: a process of this host that lives, or
///    one of another host and another job.
/// 2. The file names its owner (host, process, job, start), so that a process that is kept out can say by whom.
/// 3. The file is removed by its owner alone, while it is locked; a process that then locks the removed file
///    opens it again.
/// 4. A run whose folder, or the lock in it, was removed or replaced ends instead of writing where another may write.
/// 5. Where others may write, what they have put there when the run begins leads it to no other files: links of other
///    users are errors.
///
/// Cost: a probe of as many bytes as one checkpoint and the weights, which are reserved and not written where the file
/// system can; in FOLDER/ckpt where that is there, as it may be on other storage.
/// Source: flock(2), fallocate(2).
#pragma once

#include <cstdint>
#include <filesystem>

#include <mn/core/fd.hpp>

namespace mn {

class Communicator;

class OutputFolder {
 public:
  /// Throws UsageError that says which: the folder can't be made or written, it is full (with the bytes free and
  /// needed; `bytes` are needed at least), or another process holds it (with its host, process and job). One
  /// of this job, as before a restart, has 30 seconds to end, another of this host ten. This process may hold a folder
  /// more than once.
  OutputFolder(const std::filesystem::path& folder, std::uint64_t bytes);
  /// Releases the lock.
  ~OutputFolder();
  /// (4): throws DataError if what is locked is no longer what lies there.
  void check_held() const;
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  void check_room(const std::filesystem::path& folder, std::uint64_t bytes) const;
  void lock();
  [[nodiscard]] bool lock_file();
  void sign() const;

  std::filesystem::path folder_;
  std::filesystem::path lock_path_;
  Fd lock_;  // empty: this process holds the folder elsewhere
};

/// Collective, with rank 0's folder: every rank throws what check_held() does.
void check_held(const OutputFolder* folder, Communicator& comm);

}  // namespace mn
