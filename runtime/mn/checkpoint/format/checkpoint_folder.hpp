/// The checkpoints of an output folder: their names, which is the newest, how far each was, removal of old ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace mn {

/// OUT/ckpt/step-NNNNNNNN.
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& out, std::int64_t iteration);
/// The iteration that the name of a checkpoint says; no value for other names.
[[nodiscard]] std::optional<std::int64_t> checkpoint_iteration(const std::filesystem::path& path);
/// The checkpoints of `out`, those of the most iterations first, whenever they were written or copied; none if there is
/// no such folder. An error where that can't be told.
[[nodiscard]] std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& out);
/// The iteration of the checkpoint at `path`, which may be a link such as OUT/snapshot_best; no value unless it is one
/// that find_checkpoints(out) finds.
[[nodiscard]] std::optional<std::int64_t> iteration_in(const std::filesystem::path& out,
                                                       const std::filesystem::path& path);
/// How far the training of a checkpoint was.
struct CheckpointInfo {
  std::int64_t iteration = 0;  ///< iterations completed
  std::int64_t epoch = 0;      ///< epochs completed
  double epoch_detail = 0;     ///< the same with the fraction of the current epoch
  std::int64_t ranks = 0;      ///< that trained
};
/// Local. Reads and checks the whole checkpoint before a job that fits is made; throws the
/// DataError of Trainer::resume() if it is absent or damaged.
[[nodiscard]] CheckpointInfo read_checkpoint_info(const std::filesystem::path& path);

/// Before a run writes its first checkpoint, that of `iteration`: those of runs that it does not continue get names
/// that find_checkpoints() does not know, with a warning: old_step-N, or old_step-N.2, … where that is taken. These are
/// all after iteration `continued`, which the run began from, or all there are if it began from none of `out`; and a
/// pinned one of `iteration`, which would be replaced. OUT/snapshot_best follows. For one rank.
void set_checkpoints_aside(const std::filesystem::path& out, std::optional<std::int64_t> continued,
                           std::int64_t iteration);

/// Whether the checkpoint is kept whatever its age: pinned (it holds a file of the name "pinned"), or the one that
/// OUT/snapshot_best points to.
[[nodiscard]] bool is_kept(const std::filesystem::path& out, const std::filesystem::path& checkpoint);
/// Removes of mn's own (is_own()) all but the `keep` of the most iterations and those that is_kept() names, and what
/// stopped saves have left; a warning for what can't be removed. For one rank, while nothing is being saved. Removes
/// nothing because of what it can't see, which is an error.
void remove_old_checkpoints(const std::filesystem::path& out, std::size_t keep);

/// OUT/snapshot_best becomes a link to this checkpoint of `out`, in one step. For one rank. DataError if it can't, or
/// if something else is there.
void mark_best(const std::filesystem::path& out, const std::filesystem::path& checkpoint);
/// Where a training goes on after `iteration`, whose best report was that of iteration `best`: OUT/snapshot_best
/// becomes a link to that checkpoint. Without it, a link to a later one goes, with a warning. For one rank. DataError
/// if it can't.
void restore_best(const std::filesystem::path& out, std::int64_t best, std::int64_t iteration);

}  // namespace mn
