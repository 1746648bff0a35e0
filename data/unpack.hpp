/// Unpacks whole files that gzip or zstd has packed.
#pragma once

#include <filesystem>

namespace mn::data {

/// Whether the file begins like a gzip or zstd file.
[[nodiscard]] bool is_packed(const std::filesystem::path& file);

/// Unpacks `file` to `unpacked`, and waits until `unpacked` is on stable storage. If `file` is damaged, or if it is a
/// zstd file and this build lacks libzstd, throws a DataError that names `file`.
void unpack(const std::filesystem::path& file, const std::filesystem::path& unpacked);
/// unpack() for a zstd file.
void unpack_zstd(const std::filesystem::path& file, const std::filesystem::path& unpacked);

}  // namespace mn::data
