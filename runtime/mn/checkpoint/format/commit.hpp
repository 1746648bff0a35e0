/// How a checkpoint comes to be, so that whatever stops any process at any point leaves the one before, or this one.
///
///   rank 0      begin_save(): removes what an attempt that was stopped has left, makes the folder
///   every rank  TensorShardWriter: creates its shard, writes it, syncs it, closes it
///   every rank  sync_folder()
///   rank 0      commit_save(): sees all shards in their sizes, writes the manifest beside its name, syncs it, renames
///               it, syncs the folder and the one above
///
/// (1) The manifest appears by a rename, when all that it describes is on stable storage: it commits the checkpoint.
/// (2) Where a checkpoint of this path exists, the new one is written beside it, and takes its path in one rename.
/// (3) Nothing but a checkpoint's own files is ever removed or replaced.
#pragma once

#include <filesystem>

#include <mn/checkpoint/format/checkpoint_manifest.hpp>

namespace mn {

/// Ends of the names of what takes a checkpoint's place and of what loses it: ".step-00000003.replaced".
inline constexpr const char* kReplacingEnd = ".replacing";
inline constexpr const char* kReplacedEnd = ".replaced";

/// For one rank. Returns the folder that shards go to: `path`, or one beside it where a checkpoint of that path exists.
/// DataError if it can't be made, or if `path` holds other files.
[[nodiscard]] std::filesystem::path begin_save(const std::filesystem::path& path);
/// For one rank, after all shards: `folder` becomes the checkpoint `path`. DataError if a shard is not there.
void commit_save(const std::filesystem::path& folder, const std::filesystem::path& path, const Manifest& manifest);
/// For one rank: removes what was written of a save that failed, as far as that is possible.
void abandon_save(const std::filesystem::path& folder) noexcept;

/// Whether the path is a folder, not a link to one, with the files of a checkpoint or of a stopped save and no others.
/// What is not is another program's: nobody removes, renames or replaces it.
[[nodiscard]] bool is_own(const std::filesystem::path& path);

/// Removes a checkpoint, or what a stopped save has left: the manifest first, so that it is whole or not a checkpoint.
/// DataError if that fails, or unless is_own().
void remove_checkpoint(const std::filesystem::path& path);

}  // namespace mn
