/// The cgroups that limit this process, as containers and Slurm set them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mn {

/// Folders of this process's cgroups: in version 2, and of `controller` in version 1; each with its parents. Folders
/// may be missing: inside a container the path may be the host's, and only its root is visible. `root` holds proc and
/// sys.
[[nodiscard]] std::vector<std::filesystem::path> cgroups(const std::string& controller,
                                                         const std::filesystem::path& root = "/");

}  // namespace mn
