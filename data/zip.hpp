/// Members of a ZIP file, as numpy and others write them: stored or deflated, of any size.
/// Source: PKWARE's APPNOTE.TXT 6.3.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <mn/core/file.hpp>

namespace mn::data {

struct ZipMember {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;  ///< CRC-32 of the content
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;  ///< of the content
  std::uint64_t begin = 0;  ///< where what is stored begins in the file
};

class ZipFile {
 public:
  /// Throws DataError that names the file if it is damaged, truncated or no ZIP file.
  explicit ZipFile(const std::filesystem::path& path);

  [[nodiscard]] const std::vector<ZipMember>& members() const noexcept { return members_; }
  [[nodiscard]] const std::shared_ptr<const File>& file() const noexcept { return file_; }
  /// Unpacks a deflated member into a file of its own. Throws DataError if it is damaged.
  void unpack(const ZipMember& member, const std::filesystem::path& path) const;

 private:
  [[noreturn]] void damaged(const std::string& what) const;
  void read_directory();
  [[nodiscard]] std::uint64_t content_at(std::uint64_t header_at) const;

  std::shared_ptr<const File> file_;
  std::uint64_t file_bytes_ = 0;
  std::vector<ZipMember> members_;
};

}  // namespace mn::data
