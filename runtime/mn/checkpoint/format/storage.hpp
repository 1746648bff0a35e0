/// Finds out whether the files of a folder survive the loss of the node.
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// Returns the kind of the folder's file system, for instance "tmpfs", "overlay" or "ext4", if the files are lost
/// together with the node or the container. Returns an empty text for file servers and for unknown kinds.
[[nodiscard]] std::string volatile_storage(const std::filesystem::path& folder);

/// True if file systems of this kind lie on a disk, which the node may export to other nodes. False for kinds in memory
/// and for "overlay".
[[nodiscard]] bool is_disk(const std::string& kind);

}  // namespace mn
