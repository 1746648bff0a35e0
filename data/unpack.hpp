/// Unpacks whole files that gzip or zstd has packed.
#pragma once

#include <filesystem>

namespace mn::data {

/// Whether the file begins as gzip or zstd writes it.
[[nodiscard]] bool is_packed(const std::filesystem::path& file);

/// Writes the unpacked content of `file` to `unpacked`, which reaches stable storage. Throws DataError that names
/// `file` if it is damaged, or if zstd packed it and this build lacks libzstd.
void unpack(const std::filesystem::path& file, const std::filesystem::path& unpacked);

}  // namespace mn::data
