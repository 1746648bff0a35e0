/// Reads the archive (a file with named records) of a program that torch.export.save has written.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/core/zip.hpp>

namespace mn::exported {

/// The archive's records, which PyTorch stores uncompressed. All functions throw one-line DataErrors with source().
class Archive {
 public:
  /// Reads the archive's directory in `bytes`, which must outlive this object. `source` is the file's name for errors.
  Archive(std::string_view bytes, std::string source);
  /// Reads the archive's directory in `file`. Later calls read only the records that they need.
  explicit Archive(std::shared_ptr<const File> file);
  /// An archive that has only `records`.
  Archive(const std::map<std::string, std::string>& records, std::string source);

  [[nodiscard]] const std::string& source() const noexcept { return source_; }
  [[nodiscard]] bool has(const std::string& name) const { return records_.contains(name); }
  /// Checks the record's checksum and returns its bytes. `name` is the path below the archive's top folder, like
  /// "models/model.json".
  [[nodiscard]] std::string record(const std::string& name) const;
  /// The number of bytes of the record.
  [[nodiscard]] std::uint64_t record_bytes(const std::string& name) const { return find(name).bytes; }
  /// The names of the records in `folder` (with its slash) that end with `end`.
  [[nodiscard]] std::vector<std::string> names(const std::string& folder, const std::string& end) const;
  /// The records that parse_program() may read, by name.
  [[nodiscard]] std::map<std::string, std::string> program_records() const;

 private:
  void add(const ZipMember& member);
  [[nodiscard]] const ZipMember& find(const std::string& name) const;
  [[noreturn]] void fail(const std::string& how) const;

  std::string source_;
  std::function<std::string(const ZipMember&)> read_;  // returns the record's bytes
  std::map<std::string, ZipMember, std::less<>> records_;
};

}  // namespace mn::exported
