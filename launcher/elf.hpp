/// What an ELF file says about itself, and the libraries that the dynamic loader finds for it.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mn::launcher {

struct ElfFile {
  std::string interpreter;  ///< the dynamic loader; empty for a static program or a library
  std::string build_id;     ///< hexadecimal; empty if it has none
};

/// Nothing if `file` is no 64-bit ELF file of this machine's byte order.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::filesystem::path& file);

struct Library {
  std::string name;            ///< as programs ask for it: libmpi.so.40
  std::filesystem::path path;  ///< empty: not found
};

/// Asks `interpreter`, as ldd does: the loader's own answer, with this process's environment. Nothing of the program
/// runs. Empty if the loader gives no answer in time.
[[nodiscard]] std::vector<Library> list_libraries(const std::string& interpreter, const std::filesystem::path& program,
                                                  std::chrono::milliseconds patience);

}  // namespace mn::launcher
