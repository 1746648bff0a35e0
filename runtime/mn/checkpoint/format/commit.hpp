/// How written files become a checkpoint (the commit). Whenever a process stops, either the new checkpoint is complete,
/// or the old checkpoint is still there.
///
///   rank 0      begin_save(): removes the files of a stopped attempt, makes the folder
///   every rank  TensorShardWriter: creates, writes, syncs and closes its shard
///   every rank  sync_folder()
///   rank 0      commit_save(): checks the sizes of all shards, writes the manifest to a temporary name, syncs and
///               renames it, syncs the folder and the folder above
///
/// (1) The rename of the manifest commits the checkpoint. By then, all shards are on stable storage.
/// (2) If the path holds a checkpoint, the new checkpoint is written to a folder beside it, which is then renamed to
///     the path.
/// (3) Only a checkpoint's own files are ever removed or replaced.
#pragma once

#include <filesystem>

#include <mn/checkpoint/format/checkpoint_manifest.hpp>

namespace mn {

/// Endings of folders' names while a checkpoint is replaced. The new folder is called ".step-00000003.replacing" until
/// it takes the checkpoint's path. If the file system cannot exchange two names, the old folder is called
/// ".step-00000003.replaced" until it is removed.
inline constexpr const char* kReplacingEnd = ".replacing";
inline constexpr const char* kReplacedEnd = ".replaced";

/// Called by one rank: makes the folder for the shards of a save, and returns the folder's path. This is `path`, or a
/// folder beside it if `path` is a checkpoint already (invariant 2). Throws DataError if the folder cannot be made, or
/// if `path` holds files that are not a checkpoint's.
[[nodiscard]] std::filesystem::path begin_save(const std::filesystem::path& path);
/// Called by one rank after all shards were written: commits the checkpoint. Throws DataError if a shard is missing.
void commit_save(const std::filesystem::path& folder, const std::filesystem::path& path, const Manifest& manifest);
/// Called by one rank after a failed save: removes its folder, if possible.
void abandon_save(const std::filesystem::path& folder) noexcept;

/// True if `path` is a folder, not a link, and holds only files of a checkpoint or of a stopped save. mn removes,
/// renames and replaces no other paths.
[[nodiscard]] bool is_own(const std::filesystem::path& path);

/// Removes a checkpoint, or the files of a stopped save. The manifest is removed first; therefore no checkpoint ever
/// lacks a shard. Throws DataError on failure, or if is_own(path) is false.
void remove_checkpoint(const std::filesystem::path& path);

}  // namespace mn
