/// Zip archives in memory whose records are stored as they are, which is how PyTorch writes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace mn::exported {

/// The records of an archive. All functions throw DataError of one line that begins with the archive's source.
class ZipArchive {
 public:
  /// Reads the central directory. `bytes`, which must outlive the archive, come from `source`.
  ZipArchive(std::string_view bytes, std::string source);

  /// What a file's messages begin with.
  [[nodiscard]] const std::string& source() const noexcept { return source_; }
  [[nodiscard]] bool has(const std::string& name) const { return records_.contains(name); }
  /// The bytes of a record, after its checksum was compared. Names are without the archive's own folder, which is
  /// called as the file was when it was written: "models/model.json".
  [[nodiscard]] std::string_view record(const std::string& name) const;

 private:
  struct Record {
    std::uint64_t header = 0;  // offset of its local header
    std::uint64_t bytes = 0;
    std::uint64_t stored_bytes = 0;
    std::uint32_t crc32 = 0;
    std::uint16_t method = 0;
  };

  [[nodiscard]] std::uint64_t find_end() const;
  void read_directory();
  [[nodiscard]] std::uint64_t read_entry(std::uint64_t at);
  void widen(Record& record, std::uint64_t at, std::uint64_t end) const;
  [[nodiscard]] std::string_view part(std::uint64_t offset, std::uint64_t length) const;
  template <class Number>
  [[nodiscard]] Number number(std::uint64_t offset) const;
  [[noreturn]] void fail(const std::string& how) const;

  std::string_view bytes_;
  std::string source_;
  std::map<std::string, Record, std::less<>> records_;
};

}  // namespace mn::exported
