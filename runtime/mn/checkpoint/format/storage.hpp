/// Whether the files of a folder survive the loss of the node.
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// If the file system of `folder` is lost with the node or the container, returns its kind: "tmpfs", "overlay", "ext4",
/// …. Returns an empty text for file servers, and for unknown kinds.
[[nodiscard]] std::string volatile_storage(const std::filesystem::path& folder);

/// True for kinds on a disk, which the node may export; false for kinds in memory.
[[nodiscard]] bool is_disk(const std::string& kind);

}  // namespace mn
