/// The header of a safetensors file, read without libtorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn {

/// One tensor of the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< the name in the format: "F32", …
  std::vector<std::int64_t> shape;
  std::string_view bytes;   ///< the tensor's bytes in the file; for a known dtype, their number fits the shape
  bool is_complex = false;  ///< complex numbers, as pairs of real numbers along the last dimension
};

/// A key of a file's metadata. Its value is a list, as JSON text, of the complex tensors, which are stored as pairs.
inline constexpr const char* kComplexKey = "complex";
/// True if a tensor of this form may hold pairs: real numbers with a last dimension of 2.
[[nodiscard]] bool are_pairs(std::string_view dtype, const std::vector<std::int64_t>& shape) noexcept;

/// Number of bytes of an element of a dtype; 0 for an unknown dtype.
[[nodiscard]] std::uint64_t safetensors_element_bytes(std::string_view dtype) noexcept;

/// Number of bytes of a tensor. Throws DataError that begins with `source` for an unknown dtype and for an impossible
/// shape. Shapes without elements are checked, too, because strides are products of extents.
[[nodiscard]] std::uint64_t safetensors_bytes(const std::string& name, const std::string& dtype,
                                              const std::vector<std::int64_t>& shape, const std::string& source);

/// The beginning of a file: the size of the header, the header, and blanks up to a multiple of 8 bytes.
[[nodiscard]] std::string safetensors_header(const nlohmann::json& header);

/// Reads only the header of a file. Returns null if there is no header; parse_safetensors_header() can report the
/// reason. Throws DataError that begins with the path if the file can't be read.
[[nodiscard]] nlohmann::json read_safetensors_header(const std::filesystem::path& path);

/// The tensors in the order of their data. Throws DataError of one line that begins with `source` unless the header has
/// the format, and every byte after the header belongs to exactly one tensor.
[[nodiscard]] std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view file, const std::string& source);

}  // namespace mn
