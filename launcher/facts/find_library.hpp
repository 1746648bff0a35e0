/// Where the dynamic loader finds a library, without loading it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mn::launcher {

/// The file of `name`: in the folders of `library_path` (as LD_LIBRARY_PATH), in the loader's cache, in its standard
/// folders. No value if there is none. Cache and standard folders are looked up below `root`. Not searched: the folders
/// that a program or library brings along (RUNPATH). Source: ld.so(8).
[[nodiscard]] std::optional<std::filesystem::path> find_library(const std::string& name,
                                                                const std::string& library_path,
                                                                const std::filesystem::path& root);

/// Where the MPI that `program` needs may have its other libraries: the folder of its libmpi, and those of that one's
/// RUNPATH. Empty if it needs none itself.
[[nodiscard]] std::vector<std::filesystem::path> folders_of_mpi(const std::filesystem::path& program,
                                                                const std::string& library_path);

}  // namespace mn::launcher
