/// The header of a safetensors file, read without libtorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn {

class File;

/// One tensor of a file: its name, dtype, shape and bytes.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< the name in the format: "F32", …
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< offset of the tensor's bytes in the file
  std::uint64_t end = 0;    ///< for a known dtype, the number of bytes fits the shape
  std::string_view bytes;   ///< the tensor's bytes; empty if only the header was read
  bool is_complex = false;  ///< complex numbers, as pairs of real numbers along the last dimension
};

/// The key of a text in a file's metadata. The text is a JSON list of the complex tensors, which are stored as pairs.
inline constexpr const char* kComplexKey = "complex";
/// True if the tensor has real numbers and a last dimension of 2. It may then hold complex numbers as pairs.
[[nodiscard]] bool are_pairs(std::string_view dtype, const std::vector<std::int64_t>& shape) noexcept;

/// Returns the number of bytes of one element, or 0 for an unknown dtype.
[[nodiscard]] std::uint64_t safetensors_element_bytes(std::string_view dtype) noexcept;

/// The number of bytes of a tensor. For an unknown dtype or an impossible shape, throws a DataError that begins with
/// `source`. A shape with an extent of 0 must have possible other extents, too, because strides are products of
/// extents.
[[nodiscard]] std::uint64_t safetensors_bytes(const std::string& name, const std::string& dtype,
                                              const std::vector<std::int64_t>& shape, const std::string& source);

/// Returns the first bytes of a file: the size of the header, the header, and blanks up to a multiple of 8 bytes.
[[nodiscard]] std::string safetensors_header(const nlohmann::json& header);

/// Reads only the header of a file. Returns null if the file has no header (parse_safetensors_header() reports the
/// reason). Throws DataError if the file cannot be read, or if the header is not JSON.
[[nodiscard]] nlohmann::json read_safetensors_header(const std::filesystem::path& path);

/// Returns the tensors of a file in the order of their data. If the header violates the format, or a byte after the
/// header belongs to no tensor or to several, throws a DataError of one line that begins with `source`.
[[nodiscard]] std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view file, const std::string& source);
/// Like parse_safetensors_header(), but reads only the header of the file.
[[nodiscard]] std::vector<SafetensorsEntry> read_safetensors_entries(const File& file);

}  // namespace mn
