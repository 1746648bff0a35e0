/// The checkpoints in a folder: their names, which is the newest, removal of old ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace mn {

/// FOLDER/snapshot_iter_N.
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t iteration);
/// The checkpoints in `folder`, those of the most iterations first, whenever they were written or copied; none if there
/// is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& folder);
/// Before a checkpoint of `iteration` is written: those of later iterations, of a run that this one does not continue,
/// get a name that find_checkpoints() does not know (old_snapshot_iter_N), with a warning. For one rank.
void set_later_checkpoints_aside(const std::filesystem::path& folder, std::int64_t iteration);
/// Removes all but the `keep` of the most iterations, and what killed jobs left unfinished; a warning for what can't be
/// removed. For one rank.
void remove_old_checkpoints(const std::filesystem::path& folder, std::size_t keep);

}  // namespace mn
