/// The checkpoints in a folder: their names, which is the newest, removal of old ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace mn {

/// FOLDER/snapshot_iter_N.
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t iteration);
/// The checkpoints in `folder`, the last written first; none if there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& folder);
/// Removes all but the `keep` last written, and what killed jobs left unfinished. For one rank, while none is being
/// written.
void remove_old_checkpoints(const std::filesystem::path& folder, std::size_t keep);

}  // namespace mn
