/// What tells whether two files hold the same bytes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "facts/elf.hpp"

namespace mn::launcher {

/// The linker's build id of `elf` where it has one, else a hash: of the whole file, or beyond 32 MiB of 16 MiB of it.
/// No value if it cannot be read.
[[nodiscard]] std::optional<std::string> file_id(const std::filesystem::path& file, const std::optional<ElfFile>& elf);

/// A hash of the file's first and last 64 KiB; no value if it cannot be read. `size`: the file's.
[[nodiscard]] std::optional<std::string> hash_of_ends(const std::filesystem::path& file, std::uintmax_t size);
/// Whether hash_of_ends covers all of a file of that size.
[[nodiscard]] bool is_hashed_whole(std::uintmax_t size);

}  // namespace mn::launcher
