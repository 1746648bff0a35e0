/// Reads the directory of a ZIP archive that lies in memory or in a file.
///
/// An archive has all members (files), each after a header, then a directory of all members, then an end record with
/// the directory's offset. Numbers are little endian. If all bits of a number are ones, the number is too large for its
/// field, and stands in the ZIP64 field of the directory's entry or in the ZIP64 end record.
/// Invariant: offsets and lengths come from an untrusted archive, so every read is checked against the bounds.
/// Source: PKWARE's APPNOTE.TXT 6.3, with ZIP64.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/file.hpp>

namespace mn {

/// A file in an archive. The file's bytes, stored or compressed, begin at the archive's offset `begin`.
struct ZipMember {
  enum class Method {
    kStored,  ///< uncompressed
    kDeflated,
    kOther,  ///< encrypted, or compressed by a different method
  };
  std::string name;  ///< any bytes; two members may have the same name
  Method method = Method::kStored;
  std::uint32_t crc = 0;  ///< crc32_gzip() of the content; the reader of the content verifies it
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;  ///< size of the content
  std::uint64_t begin = 0;  ///< offset of the stored bytes in the archive
};

/// The members of the ZIP archive in the bytes `archive`, in the directory's order. If the bytes are damaged, truncated
/// or not an archive, throws a one-line DataError that begins with the name `source`. For bytes that are not an archive
/// the error also names `writer`, the program that writes archives.
[[nodiscard]] std::vector<ZipMember> read_zip_directory(std::string_view archive, const std::string& source,
                                                        std::string_view writer);
/// Like the function above, for an archive in a file, of which it reads only the directory and the members' headers.
/// The DataError begins with the file's path. Also throws the errors of File.
[[nodiscard]] std::vector<ZipMember> read_zip_directory(const File& file, std::string_view writer);

}  // namespace mn
