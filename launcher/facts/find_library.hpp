/// Finds a library as the dynamic loader would, without loading it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mn::launcher {

/// The file of library `name`, or no value: in the folders of `library_path` (as LD_LIBRARY_PATH), in the loader's
/// cache, in its standard folders. Cache and standard folders are looked up below `root`. RUNPATH is not searched.
/// Source: ld.so(8).
[[nodiscard]] std::optional<std::filesystem::path> find_library(const std::string& name,
                                                                const std::string& library_path,
                                                                const std::filesystem::path& root);

/// Folders of other libraries of `program`'s MPI: the folder of its libmpi, and the folders in libmpi's RUNPATH. Empty
/// if the program needs no libmpi.
[[nodiscard]] std::vector<std::filesystem::path> folders_of_mpi(const std::filesystem::path& program,
                                                                const std::string& library_path);

}  // namespace mn::launcher
