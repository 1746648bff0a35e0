/// Ids by which files on different nodes are compared.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "facts/elf.hpp"

namespace mn::launcher {

/// The linker's build id of `elf`; without one, a hash of the whole file or, beyond 32 MiB, of 16 MiB of it. No value
/// if the file cannot be read.
[[nodiscard]] std::optional<std::string> file_id(const std::filesystem::path& file, const std::optional<ElfFile>& elf);

/// A hash of the file's first and last 64 KiB; no value if the file cannot be read. `size`: size of the file.
[[nodiscard]] std::optional<std::string> hash_of_ends(const std::filesystem::path& file, std::uintmax_t size);
/// Whether hash_of_ends covers a file of this size completely.
[[nodiscard]] bool is_hashed_whole(std::uintmax_t size);

}  // namespace mn::launcher
