/// Checkpoints of earlier versions, which were one file. They are read, and no longer written.
///
/// Little endian: "mn-ckpt2", u64 bytes of the index, u32 CRC-32C of the index, u32 0, the index, then the sections.
/// The index is JSON: "about", and for each section its name, bytes and CRC-32C. The sections are "model", "optimizer",
/// "extensions" and "rank.0" …, back to back to the end of the file. Every byte is covered by the magic, a checksum or
/// the file's length: a change or a cut anywhere is found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

namespace mn {

/// A section, as the index describes it.
struct CheckpointSection {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
};

/// "rank.3"
[[nodiscard]] std::string rank_section(std::int64_t rank);

/// Whether the file begins as one.
[[nodiscard]] bool is_checkpoint_file(const std::filesystem::path& path);

/// Reads sections one by one. Every error is a DataError that names the file, the damage and the remedy.
class CheckpointFile {
 public:
  /// Reads the index, and checks that the file is as long as it says.
  explicit CheckpointFile(const std::filesystem::path& path);

  [[nodiscard]] const nlohmann::json& about() const noexcept { return about_; }
  /// Ranks that have saved it.
  [[nodiscard]] std::int64_t ranks() const noexcept;
  /// A section's content, once its checksum was found right.
  [[nodiscard]] std::string read(std::string_view name) const;
  /// Checks all sections.
  void check() const;

 private:
  struct StoredSection {
    CheckpointSection section;
    std::uint64_t offset = 0;
  };

  [[nodiscard]] std::string read_index();
  void find_sections(const nlohmann::json& index, std::uint64_t begin);
  [[nodiscard]] std::string read(const StoredSection& stored) const;
  [[noreturn]] void damaged(const std::string& how) const;

  std::filesystem::path path_;
  File file_;
  std::uint64_t size_ = 0;
  nlohmann::json about_;
  std::vector<StoredSection> sections_;
};

}  // namespace mn
