/// The archive of an exported program, in memory, and its tensors.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include <mn/core/zip.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// The records of the archive, which PyTorch stores uncompressed. All functions throw DataError of one line that begins
/// with the archive's source.
class Archive {
 public:
  /// Reads the directory. `bytes`, which must outlive the archive, come from `source`.
  Archive(std::string_view bytes, std::string source);

  /// The file's name, with which its error messages begin.
  [[nodiscard]] const std::string& source() const noexcept { return source_; }
  [[nodiscard]] bool has(const std::string& name) const { return records_.contains(name); }
  /// A view of the record's bytes in the archive, after a check of the record's checksum. `name` is without the
  /// archive's top folder, whose name is the original name of the file: "models/model.json".
  [[nodiscard]] std::string_view record(const std::string& name) const;

 private:
  [[noreturn]] void fail(const std::string& how) const;

  std::string_view bytes_;
  std::string source_;
  std::map<std::string, ZipMember, std::less<>> records_;
};

/// Copies the tensor to the CPU. Throws DataError that begins with the archive's source and names the tensor, unless
/// the tensor's record holds every element.
[[nodiscard]] at::Tensor read_tensor(const std::string& name, const StoredTensor& stored, const Archive& archive);

}  // namespace mn::exported
