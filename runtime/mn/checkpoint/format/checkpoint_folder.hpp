/// The checkpoints of an output folder: names, search for the newest, contents, removal. CheckpointReader chooses an
/// undamaged checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace mn {

/// The path of the checkpoint of `iteration`: OUT/ckpt/step-NNNNNNNN.
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& out, std::int64_t iteration);
/// The iteration in the name of a checkpoint; no value for names that checkpoint_path() does not make.
[[nodiscard]] std::optional<std::int64_t> checkpoint_iteration(const std::filesystem::path& path);
/// The checkpoints of `out` by descending iteration, whatever their times of writing. Empty if the folder does not
/// exist. Throws FileError if the storage fails.
[[nodiscard]] std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& out);
/// The iteration of the checkpoint at `path`, which may be a link (OUT/snapshot_best). No value unless
/// find_checkpoints(out) finds the checkpoint.
[[nodiscard]] std::optional<std::int64_t> iteration_in(const std::filesystem::path& out,
                                                       const std::filesystem::path& path);
/// How far the training of a checkpoint had come.
struct CheckpointInfo {
  std::int64_t iteration = 0;  ///< iterations completed
  std::int64_t epoch = 0;      ///< epochs completed
  double epoch_detail = 0;     ///< epochs completed, with the fraction of the current epoch
  std::int64_t ranks = 0;      ///< number of ranks
};
/// Not collective. Reads and checks a whole checkpoint, for example to choose the size of the job that resumes. Throws
/// the DataError of Trainer::resume() if the checkpoint is absent or damaged.
[[nodiscard]] CheckpointInfo read_checkpoint_info(const std::filesystem::path& path);

/// Called by one rank before a run writes its first checkpoint, which is of `iteration`. Renames checkpoints of runs
/// that the new run does not continue: to old_step-N, or old_step-N.2, … if the name is taken. Logs a warning.
/// find_checkpoints() does not find the new names. If the run resumed from the checkpoint of iteration `continued` in
/// `out`, all later checkpoints are renamed; without `continued`, all checkpoints are. A pinned checkpoint of
/// `iteration` is renamed, too, because the new checkpoint would replace it. If OUT/snapshot_best pointed to a renamed
/// checkpoint, it points to the new name.
void set_checkpoints_aside(const std::filesystem::path& out, std::optional<std::int64_t> continued,
                           std::int64_t iteration);

/// True if the checkpoint is kept whatever its age: it is pinned (holds a file named "pinned"), or OUT/snapshot_best
/// points to it.
[[nodiscard]] bool is_kept(const std::filesystem::path& out, const std::filesystem::path& checkpoint);
/// Called by one rank while no save is under way. Removes the files of stopped saves, and mn's own checkpoints
/// (is_own()), except the `keep` checkpoints with the most iterations and all checkpoints for which is_kept() is true.
/// A warning names each checkpoint that can't be removed. Throws FileError, and removes nothing more, if the storage
/// fails.
void remove_old_checkpoints(const std::filesystem::path& out, std::size_t keep);

/// Called by one rank: makes OUT/snapshot_best a link to a checkpoint of `out`, in one step. Throws DataError on
/// failure, or if a file of a different program has this name.
void mark_best(const std::filesystem::path& out, const std::filesystem::path& checkpoint);
/// Called by one rank when training resumes after `iteration`, and the best report was in iteration `best`: makes
/// OUT/snapshot_best a link to the checkpoint of `best`. If this checkpoint is gone, and the link points to a
/// checkpoint after `iteration`, removes the link, with a warning. Throws DataError on failure.
void restore_best(const std::filesystem::path& out, std::int64_t best, std::int64_t iteration);

}  // namespace mn
