/// The header of a safetensors file, read without libtorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// One tensor of the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< one of the format's names: "F32", …
  std::vector<std::int64_t> shape;
  std::string_view bytes;  ///< the tensor's bytes in the file, as many as its shape and dtype say
};

/// The tensors in the order of their data. Throws DataError of one line that begins with `source` unless the header is
/// what the format says and every byte after it belongs to exactly one tensor.
[[nodiscard]] std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view file, const std::string& source);

}  // namespace mn
