/// The index of weights in several files, as Hugging Face writes it (model.safetensors.index.json).
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace mn {

/// Returns the names of the files in the folder of an index, and for each file the names of its tensors. Throws a
/// DataError of one line that names the index if it is not JSON, lists no tensors, or names a file elsewhere.
[[nodiscard]] std::map<std::string, std::set<std::string>> read_weights_index(const std::filesystem::path& index);

}  // namespace mn
