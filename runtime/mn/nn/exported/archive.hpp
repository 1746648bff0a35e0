/// Reads the archive (a file with named records) of a program that torch.export.save has written, from memory.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <mn/core/zip.hpp>

namespace mn::exported {

/// The archive's records, which PyTorch stores uncompressed. All functions throw one-line DataErrors with source().
class Archive {
 public:
  /// Reads the archive's directory in `bytes`, which must outlive this object. `source` is the file's name for errors.
  Archive(std::string_view bytes, std::string source);

  [[nodiscard]] const std::string& source() const noexcept { return source_; }
  [[nodiscard]] bool has(const std::string& name) const { return records_.contains(name); }
  /// Checks the record's checksum and returns its bytes in the archive. `name` is the path below the archive's top
  /// folder, like "models/model.json".
  [[nodiscard]] std::string_view record(const std::string& name) const;

 private:
  [[noreturn]] void fail(const std::string& how) const;

  std::string_view bytes_;
  std::string source_;
  std::map<std::string, ZipMember, std::less<>> records_;
};

}  // namespace mn::exported
