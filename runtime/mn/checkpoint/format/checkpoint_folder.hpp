/// Finds, describes and removes the checkpoints of an output folder. CheckpointReader chooses an undamaged checkpoint
/// among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace mn {

/// The path of the checkpoint of `iteration`: OUT/ckpt/step-NNNNNNNN.
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& out, std::int64_t iteration);
/// Returns the iteration in the name of a checkpoint. Returns no value if checkpoint_path() does not make such a name.
[[nodiscard]] std::optional<std::int64_t> checkpoint_iteration(const std::filesystem::path& path);
/// Returns the checkpoints in the output folder `out`. The checkpoint with the most iterations comes first, even if it
/// was written earlier than another. The result is empty if the folder does not exist. Throws FileError if the storage
/// fails.
[[nodiscard]] std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& out);
/// Returns the iteration of the checkpoint at `path`, which may be a link such as OUT/snapshot_best. Returns no value
/// if `path` leads to no checkpoint of `out`.
[[nodiscard]] std::optional<std::int64_t> iteration_in(const std::filesystem::path& out,
                                                       const std::filesystem::path& path);
/// How far training had come when a checkpoint was saved.
struct CheckpointInfo {
  std::int64_t iteration = 0;  ///< iterations completed
  std::int64_t epoch = 0;      ///< epochs completed
  double epoch_detail = 0;     ///< epochs completed, with the fraction of the current epoch
  std::int64_t ranks = 0;      ///< number of ranks
};
/// Not collective: reads and checks a whole checkpoint, for example to choose the number of ranks that resume. If the
/// checkpoint is absent or damaged, throws the DataError that Trainer::resume() would throw.
[[nodiscard]] CheckpointInfo read_checkpoint_info(const std::filesystem::path& path);

/// Called by one rank before a run writes its first checkpoint, the checkpoint of `iteration`. Renames checkpoints of
/// earlier runs that this run does not continue to old_step-N (or old_step-N.2, …), which find_checkpoints() does not
/// find; a warning names them. If the run resumed from the checkpoint of iteration `continued`, all later checkpoints
/// are renamed, otherwise all checkpoints. A pinned checkpoint of `iteration` is renamed, too, because the new
/// checkpoint would replace it. If OUT/snapshot_best pointed to a renamed checkpoint, the link then points to the new
/// name.
void set_checkpoints_aside(const std::filesystem::path& out, std::optional<std::int64_t> continued,
                           std::int64_t iteration);

/// True if the checkpoint must be kept whatever its age: it is pinned (holds a file named "pinned"), or
/// OUT/snapshot_best points to it.
[[nodiscard]] bool is_kept(const std::filesystem::path& out, const std::filesystem::path& checkpoint);
/// Called by one rank while no save is under way: removes the files of stopped saves, and old checkpoints. These stay:
/// the `keep` checkpoints with the most iterations, checkpoints for which is_kept() is true, and folders that contain
/// files not written by mn (is_own()). A warning names each checkpoint that cannot be removed. If the storage fails,
/// throws FileError and removes nothing more.
void remove_old_checkpoints(const std::filesystem::path& out, std::size_t keep);

/// Called by one rank: makes OUT/snapshot_best a link to a checkpoint of `out`. An old link is replaced in a single
/// step. Throws DataError on failure, or if OUT/snapshot_best is not a link that mn has made.
void mark_best(const std::filesystem::path& out, const std::filesystem::path& checkpoint);
/// Called by one rank when training resumes after `iteration`. `best` is the iteration with the best report so far.
/// Makes OUT/snapshot_best a link to the checkpoint of `best`. If this checkpoint no longer exists and the old link
/// points to a checkpoint after `iteration`, removes the link, with a warning. Throws DataError on failure.
void restore_best(const std::filesystem::path& out, std::int64_t best, std::int64_t iteration);

}  // namespace mn
