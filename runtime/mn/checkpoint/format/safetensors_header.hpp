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
  std::string dtype;  ///< one of the format's names: "F32", …
  std::vector<std::int64_t> shape;
  std::string_view bytes;   ///< the tensor's bytes in the file, as many as its shape and dtype say
  bool is_complex = false;  ///< pairs of real numbers, along the last dimension, that stand for complex ones
};

/// The metadata of a file by this name is a list, as JSON text, of the tensors that are pairs for complex numbers.
inline constexpr const char* kComplexKey = "complex";
/// Whether a tensor may be that: of real numbers, with a last dimension of 2.
[[nodiscard]] bool are_pairs(std::string_view dtype, const std::vector<std::int64_t>& shape) noexcept;

/// Bytes of an element of a dtype of the format; 0 if there is no such dtype.
[[nodiscard]] std::uint64_t safetensors_element_bytes(std::string_view dtype) noexcept;

/// Bytes of a tensor. Throws DataError that begins with `source` for an unknown dtype, and for an impossible shape:
/// also without elements, because strides are products of extents.
[[nodiscard]] std::uint64_t safetensors_bytes(const std::string& name, const std::string& dtype,
                                              const std::vector<std::int64_t>& shape, const std::string& source);

/// What a file begins with: the bytes of the header, the header, and blanks, so that the data is aligned to 8 bytes.
[[nodiscard]] std::string safetensors_header(const nlohmann::json& header);

/// The header of a file, without its tensors; null if it has none: parse_safetensors_header() says why. Throws
/// DataError that begins with the path if it can't be read.
[[nodiscard]] nlohmann::json read_safetensors_header(const std::filesystem::path& path);

/// The tensors in the order of their data. Throws DataError of one line that begins with `source` unless the header is
/// what the format says and every byte after it belongs to exactly one tensor.
[[nodiscard]] std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view file, const std::string& source);

}  // namespace mn
