/// Reads tar files: ustar, GNU and pax (POSIX.1-2001), uncompressed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/file.hpp>

namespace mn::data {

struct TarMember {
  std::string name;
  std::uint64_t header_at = 0;  ///< offset of the member's first header; a long name has headers of its own
  std::uint64_t begin = 0;      ///< offset of the member's content
  std::uint64_t bytes = 0;
  bool is_link = false;  ///< a link: the content is in another member
};

struct TarHeader;

/// Reads the regular files and links of a tar file in order, without folders and special files. Throws a DataError that
/// names the tar file and the problem if a header is damaged, the end is missing, content follows the end, a member is
/// a sparse file, or the file is no tar file.
class TarReader {
 public:
  /// Error texts call the tar file `name` (empty: `path`).
  explicit TarReader(const std::filesystem::path& path, std::string name = {});

  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  /// The next member; no value at the end.
  [[nodiscard]] std::optional<TarMember> next();
  /// Valid until the next call of next() or read(). If members are read in order, the file is read once.
  [[nodiscard]] std::span<const std::byte> read(const TarMember& member);

 private:
  struct Extension;

  [[noreturn]] void damaged(const std::string& what) const;
  [[noreturn]] void reject_sparse(const std::string& name) const;
  std::span<const std::byte> bytes_at(std::uint64_t begin, std::uint64_t bytes);
  std::string text_at(std::uint64_t begin, std::uint64_t bytes);
  /// If the member only describes the next one (long name or size), stores this in `extension` and returns true.
  bool take_extension(const TarHeader& header, const TarMember& member, Extension& extension);
  void take_pax(std::string_view records, Extension& extension) const;
  void check_end();

  File file_;
  std::string name_;
  std::uint64_t file_bytes_;
  std::uint64_t at_ = 0;  // offset of the next header
  std::uint64_t window_at_ = 0;
  std::vector<std::byte> window_;
};

}  // namespace mn::data
