/// The output folder of a run. Rank 0 creates the folder, checks access and free space, and locks the folder until the
/// run ends.
///
/// (1) Two processes never hold a folder at the same time. The lock is flock(2) of FOLDER/.lock; the kernel releases
///     the lock when the process ends. On a file system without locks, the owner that the file names holds the folder
///     in two cases: its process still runs on this host, or both its host and its job differ from ours.
/// (2) FOLDER/.lock names the owner (host, process, job, start), so that the error of a rejected process can name the
///     owner.
/// (3) The owner removes FOLDER/.lock before it releases the lock. If a process has locked a file that was removed
///     meanwhile, it must open the path again.
/// (4) If the folder or the lock file is removed or replaced, the run ends, because a second run may write to the
///     folder by now.
/// (5) At the start of a run, a link in the folder is an error if neither this user nor root has made the link.
///
/// Cost: the start makes a probe file as large as a checkpoint and the weights, for which space is only reserved. If
/// the file system cannot reserve space, 64 KiB are written instead. If FOLDER/ckpt exists, the probe is in this
/// folder, because it may be on different storage. Source: flock(2), fallocate(2).
#pragma once

#include <cstdint>
#include <filesystem>

#include <mn/core/fd.hpp>

namespace mn {

class Communicator;

class OutputFolder {
 public:
  /// Throws UsageError with the reason if the folder cannot be created or written, has less than `bytes` bytes free, or
  /// is held by a second process. The error names the second process by host, process id and job. Before it throws, the
  /// constructor waits for the second process to end: 30 seconds if the process belongs to this job, as after a
  /// restart, and 10 seconds if it runs on this host. One process may hold the same folder more than once.
  OutputFolder(const std::filesystem::path& folder, std::uint64_t bytes);
  /// Releases the lock.
  ~OutputFolder();
  /// Invariant 4: throws DataError if the lock file in the folder is no longer the file that this process has locked.
  void check_held() const;

 private:
  void check_room(const std::filesystem::path& folder, std::uint64_t bytes) const;
  void lock();
  [[nodiscard]] bool lock_file();
  void sign() const;

  std::filesystem::path folder_;
  std::filesystem::path lock_path_;
  Fd lock_;  // empty if this process already held the folder before
};

/// Collective: every rank throws rank 0's error of folder->check_held(). Other ranks ignore `folder`.
void check_held(const OutputFolder* folder, Communicator& comm);

}  // namespace mn
