/// The checkpoints of an output folder: their names, the search for the newest, their contents, their removal.
/// CheckpointReader chooses an undamaged one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace mn {

/// The path of the checkpoint of `iteration`: OUT/ckpt/step-NNNNNNNN.
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& out, std::int64_t iteration);
/// The iteration in the name of a checkpoint. No value for names that checkpoint_path() does not make.
[[nodiscard]] std::optional<std::int64_t> checkpoint_iteration(const std::filesystem::path& path);
/// The checkpoints in the output folder `out`. The checkpoint with the most iterations comes first, whenever it was
/// written. Empty if the folder does not exist. Throws FileError if the storage fails.
[[nodiscard]] std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& out);
/// The iteration of the checkpoint at `path`, which may be a link such as OUT/snapshot_best. No value if `path` leads
/// to no checkpoint of `out`.
[[nodiscard]] std::optional<std::int64_t> iteration_in(const std::filesystem::path& out,
                                                       const std::filesystem::path& path);
/// How far training had come when a checkpoint was saved.
struct CheckpointInfo {
  std::int64_t iteration = 0;  ///< iterations completed
  std::int64_t epoch = 0;      ///< epochs completed
  double epoch_detail = 0;     ///< epochs completed, with the fraction of the current epoch
  std::int64_t ranks = 0;      ///< number of ranks
};
/// Not collective: reads and checks a whole checkpoint, for example to choose the size of the job that resumes. If the
/// checkpoint is absent or damaged, throws the DataError that Trainer::resume() would throw.
[[nodiscard]] CheckpointInfo read_checkpoint_info(const std::filesystem::path& path);

/// Called by one rank before a run writes its first checkpoint, which is of `iteration`. Checkpoints of earlier runs
/// that this run does not continue are renamed to old_step-N (or old_step-N.2, …), which find_checkpoints() does not
/// find; a warning names them. If the run resumed from the checkpoint of iteration `continued`, these are all later
/// checkpoints, otherwise all checkpoints. A pinned checkpoint of `iteration` is renamed, too, because the new
/// checkpoint would replace it. If OUT/snapshot_best pointed to a renamed checkpoint, it points to the new name.
void set_checkpoints_aside(const std::filesystem::path& out, std::optional<std::int64_t> continued,
                           std::int64_t iteration);

/// True if the checkpoint must be kept whatever its age: it is pinned (holds a file named "pinned"), or
/// OUT/snapshot_best points to it.
[[nodiscard]] bool is_kept(const std::filesystem::path& out, const std::filesystem::path& checkpoint);
/// Called by one rank while no save is under way: removes the files of stopped saves, and old checkpoints. The `keep`
/// checkpoints with the most iterations stay, and those with is_kept(); a folder with files that are not mn's stays,
/// too (is_own()). A warning names each checkpoint that cannot be removed. If the storage fails, removes nothing more
/// and throws FileError.
void remove_old_checkpoints(const std::filesystem::path& out, std::size_t keep);

/// Called by one rank: makes OUT/snapshot_best a link to a checkpoint of `out`, in one step. Throws DataError on
/// failure, or if OUT/snapshot_best exists and is no link that mn has made.
void mark_best(const std::filesystem::path& out, const std::filesystem::path& checkpoint);
/// Called by one rank when training resumes after `iteration`. `best` is the iteration of the best report so far;
/// OUT/snapshot_best becomes a link to the checkpoint of `best`. If this checkpoint is gone, a link to a checkpoint
/// after `iteration` is removed, with a warning. Throws DataError on failure.
void restore_best(const std::filesystem::path& out, std::int64_t best, std::int64_t iteration);

}  // namespace mn
