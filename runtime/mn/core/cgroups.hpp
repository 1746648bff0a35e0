/// The cgroups of the process, set by containers and Slurm as limits.
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
