/// The archive of an exported program, held in memory, and the tensors in it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include <mn/core/zip.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// The records of the archive, which PyTorch stores uncompressed. All functions throw a DataError of one line that
/// begins with source().
class Archive {
 public:
  /// Reads the directory of the archive in `bytes`, which must outlive this object. `source` is the name of the file,
  /// for errors.
  Archive(std::string_view bytes, std::string source);

  /// The name of the file; error messages begin with it.
  [[nodiscard]] const std::string& source() const noexcept { return source_; }
  [[nodiscard]] bool has(const std::string& name) const { return records_.contains(name); }
  /// A view of the record's bytes in the archive, after a check of the record's checksum. `name` is the path below the
  /// archive's top folder, such as "models/model.json".
  [[nodiscard]] std::string_view record(const std::string& name) const;

 private:
  [[noreturn]] void fail(const std::string& how) const;

  std::string_view bytes_;
  std::string source_;
  std::map<std::string, ZipMember, std::less<>> records_;
};

/// Copies the tensor to the CPU. If the tensor's record does not hold every element, throws a DataError that begins
/// with the archive's source and names the tensor.
[[nodiscard]] at::Tensor read_tensor(const std::string& name, const StoredTensor& stored, const Archive& archive);

}  // namespace mn::exported
