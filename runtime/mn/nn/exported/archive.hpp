/// The archive of an exported program, in memory.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <mn/core/zip.hpp>

namespace mn::exported {

/// Its records, which PyTorch stores as they are. All functions throw DataError of one line that begins with the
/// archive's source.
class Archive {
 public:
  /// Reads the directory. `bytes`, which must outlive the archive, come from `source`.
  Archive(std::string_view bytes, std::string source);

  /// What a file's messages begin with.
  [[nodiscard]] const std::string& source() const noexcept { return source_; }
  [[nodiscard]] bool has(const std::string& name) const { return records_.contains(name); }
  /// The bytes of a record, where they lie in the archive's, after their checksum was compared. Names are without the
  /// archive's own folder, which is called as the file was when it was written: "models/model.json".
  [[nodiscard]] std::string_view record(const std::string& name) const;

 private:
  [[noreturn]] void fail(const std::string& how) const;

  std::string_view bytes_;
  std::string source_;
  std::map<std::string, ZipMember, std::less<>> records_;
};

}  // namespace mn::exported
