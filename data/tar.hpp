/// Reading of tar files: ustar, GNU and pax (POSIX.1-2001), uncompressed.
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
  std::uint64_t header_at = 0;  ///< beginning of the member in the file, long name included
  std::uint64_t begin = 0;      ///< beginning of its content
  std::uint64_t bytes = 0;
  bool is_link = false;  ///< the content is in another member
};

struct TarHeader;

/// Walks through the regular files and links of a tar file, in order, and skips folders and special files.
///
/// Throws DataError that names the tar file and the problem: a damaged header, a missing end, content after the end, a
/// sparse file, another kind of file.
class TarReader {
 public:
  explicit TarReader(const std::filesystem::path& path);

  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  /// No value at the end.
  [[nodiscard]] std::optional<TarMember> next();
  /// The member's content, valid until the next call. Reading in order reads the file once, a MiB at a time.
  [[nodiscard]] std::span<const std::byte> read(const TarMember& member);

 private:
  struct Extension;

  [[noreturn]] void damaged(const std::string& what) const;
  [[noreturn]] void reject_sparse(const std::string& name) const;
  std::span<const std::byte> bytes_at(std::uint64_t begin, std::uint64_t bytes);
  std::string text_at(std::uint64_t begin, std::uint64_t bytes);
  /// Whether the member describes the next member.
  bool take_extension(const TarHeader& header, const TarMember& member, Extension& extension);
  void take_pax(std::string_view records, Extension& extension) const;
  void check_end();

  File file_;
  std::uint64_t file_bytes_;
  std::uint64_t at_ = 0;  // offset of the next header
  std::uint64_t window_at_ = 0;
  std::vector<std::byte> window_;
};

}  // namespace mn::data
