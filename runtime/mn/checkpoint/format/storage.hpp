/// Finds out whether the files of a folder survive the loss of the node.
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// Returns the kind of the folder's file system, "tmpfs", "overlay", "ext4", …, if the node or the container takes it
/// along. Empty for file servers and for unknown kinds.
[[nodiscard]] std::string volatile_storage(const std::filesystem::path& folder);

/// True if the kind lies on a disk, and the node may export the disk; false for kinds in memory and for "overlay".
[[nodiscard]] bool is_disk(const std::string& kind);

}  // namespace mn
