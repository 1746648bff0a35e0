/// Finds out whether the files of a folder survive the loss of the node.
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// Finds whether the file system of `folder` is lost with the node or the container. If so, returns the kind of file
/// system: "tmpfs", "overlay", "ext4", …. Empty for file servers, and for unknown kinds.
[[nodiscard]] std::string volatile_storage(const std::filesystem::path& folder);

/// Whether a file system of the given kind lies on a disk of the node: the node may export it to further nodes. False
/// for kinds in memory and for a container's "overlay".
[[nodiscard]] bool is_disk(const std::string& kind);

}  // namespace mn
