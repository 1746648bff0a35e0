/// The output folder of a run. Rank 0 creates the folder, checks access and free space, and locks it until the end.
///
/// (1) Two processes never hold a folder at the same time. The lock is flock(2) of FOLDER/.lock; the kernel releases it
///     when the process ends. On a file system without locks, the owner named in the file holds the folder if its
///     process lives on this host, or if its host and its job both differ from ours.
/// (2) FOLDER/.lock names the owner (host, process, job, start), so that a rejected process can name the owner in its
///     error.
/// (3) The owner removes FOLDER/.lock before it releases the lock. A process that has locked a removed file must open
///     the path again.
/// (4) If the folder or the lock file is removed or replaced, the run ends, because a second run may write there by
///     now.
/// (5) A link in the folder is an error at the start if neither this user nor root has made it.
///
/// Cost: a probe file, for which the space of a checkpoint and the weights is reserved. If the file system cannot
/// reserve space, a few bytes are written instead. The probe is in FOLDER/ckpt if that folder exists: it may be on
/// different storage. Source: flock(2), fallocate(2).
#pragma once

#include <cstdint>
#include <filesystem>

#include <mn/core/fd.hpp>

namespace mn {

class Communicator;

class OutputFolder {
 public:
  /// Throws UsageError with the reason if the folder can't be created or written, has less than `bytes` free, or is
  /// held by a second process (named with host, process and job). The constructor first waits for the second process to
  /// end: 30 seconds if it belongs to this job, as after a restart, and 10 seconds if it runs on this host. This
  /// process may hold a folder more than once.
  OutputFolder(const std::filesystem::path& folder, std::uint64_t bytes);
  /// Releases the lock.
  ~OutputFolder();
  /// Invariant 4: throws DataError if the locked file is no longer in the folder.
  void check_held() const;

 private:
  void check_room(const std::filesystem::path& folder, std::uint64_t bytes) const;
  void lock();
  [[nodiscard]] bool lock_file();
  void sign() const;

  std::filesystem::path folder_;
  std::filesystem::path lock_path_;
  Fd lock_;  // empty if this process already held the folder
};

/// Collective: every rank throws what folder->check_held() throws on rank 0. Other ranks ignore `folder`.
void check_held(const OutputFolder* folder, Communicator& comm);

}  // namespace mn
