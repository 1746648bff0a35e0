/// Whether the files of a folder survive the loss of the node.
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// The kind of file system of `folder`, if the file system is lost with the node or the container: "tmpfs", "overlay",
/// "ext4", …; empty for file servers, and for unknown kinds.
[[nodiscard]] std::string volatile_storage(const std::filesystem::path& folder);

/// True for kinds on a disk, which the node may export; false for kinds in memory.
[[nodiscard]] bool is_disk(const std::string& kind);

}  // namespace mn
