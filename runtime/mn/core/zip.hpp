/// The directory of a ZIP archive, in memory or in a file. Source: PKWARE's APPNOTE.TXT 6.3, with ZIP64.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/file.hpp>

namespace mn {

/// A file in an archive. What is stored of it lies inside the archive.
struct ZipMember {
  enum class Method {
    kStored,  ///< as it is
    kDeflated,
    kOther,  ///< encrypted, or packed in another way
  };
  std::string name;  ///< any bytes; two members may have the same
  Method method = Method::kStored;
  std::uint32_t crc = 0;  ///< crc32_gzip() of the content, not verified here
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;  ///< size of the content
  std::uint64_t begin = 0;  ///< where what is stored begins in the archive
};

/// The members of the ZIP archive `archive`, in the directory's order. Throws DataError of one line that begins with
/// `source` if it is damaged, truncated or no such archive; that line also names `writer`, which writes them.
[[nodiscard]] std::vector<ZipMember> read_zip_directory(std::string_view archive, const std::string& source,
                                                        std::string_view writer);
/// The same from a file; `source` is its path. Also throws as File does. Only the directory and the members' headers
/// are read.
[[nodiscard]] std::vector<ZipMember> read_zip_directory(const File& file, std::string_view writer);

}  // namespace mn
