/// Reads the archive (a file with named records) of a program that torch.export.save has written, from memory.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <mn/core/zip.hpp>

namespace mn::exported {

/// Reads the records of the archive, which PyTorch stores uncompressed. All functions throw a DataError of one line
/// that begins with source().
class Archive {
 public:
  /// Reads the directory of the archive in `bytes`, which must outlive this object. `source` is the name of the file
  /// for error messages.
  Archive(std::string_view bytes, std::string source);

  /// The name of the file; error messages begin with it.
  [[nodiscard]] const std::string& source() const noexcept { return source_; }
  [[nodiscard]] bool has(const std::string& name) const { return records_.contains(name); }
  /// Returns a view of the record's bytes in the archive, after checking the record's checksum. `name` is the path
  /// below the archive's top folder, like "models/model.json".
  [[nodiscard]] std::string_view record(const std::string& name) const;

 private:
  [[noreturn]] void fail(const std::string& how) const;

  std::string_view bytes_;
  std::string source_;
  std::map<std::string, ZipMember, std::less<>> records_;
};

}  // namespace mn::exported
