/// The cgroups that limit this process, as containers and Slurm set them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mn {

/// Folders of the cgroups of the second version that this process is in, and of the first version's for `controller`:
/// each with those above it. Some need not be there: inside a container the path may be the host's, of which the root
/// alone is visible. `root` holds proc and sys.
[[nodiscard]] std::vector<std::filesystem::path> cgroups(const std::string& controller,
                                                         const std::filesystem::path& root = "/");

}  // namespace mn
