/// Whether what is written to a folder outlives the node.
#pragma once

#include <filesystem>
#include <string>

namespace mn {

/// The kind of file system that holds `folder`, if it goes with the node or its container: "tmpfs", "overlay", "ext4"
/// and the like; empty for others, such as those of file servers, and where that can't be told.
[[nodiscard]] std::string volatile_storage(const std::filesystem::path& folder);

/// Whether such a kind lies on a disk, which other nodes may see too; the others end with the node.
[[nodiscard]] bool is_disk(const std::string& kind);

}  // namespace mn
