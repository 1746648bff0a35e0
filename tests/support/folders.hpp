/// Where a test finds files and programs. No path is compiled in, so all clones share the compiler's cache.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace mn::test {

/// The folder of this program, which is build/tests: it holds the other programs of the tests, too.
inline std::filesystem::path program_folder() { return std::filesystem::canonical("/proc/self/exe").parent_path(); }

/// The checkout: MN_SOURCE_DIR, which CTest sets, or the folder that holds the build folder.
inline std::filesystem::path source_folder() {
  const char* named = std::getenv("MN_SOURCE_DIR");
  return named != nullptr ? std::filesystem::path(named) : program_folder() / "../..";
}

}  // namespace mn::test
