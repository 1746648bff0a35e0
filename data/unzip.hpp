/// Unpacks compressed members of ZIP archives.
#pragma once

#include <filesystem>

#include <mn/core/file.hpp>
#include <mn/core/zip.hpp>

namespace mn::data {

/// Writes the content of a deflated member to the file `path`. Throws DataError that begins with the archive's path
/// if the member is damaged.
void unzip(const File& archive, const ZipMember& member, const std::filesystem::path& path);

}  // namespace mn::data
