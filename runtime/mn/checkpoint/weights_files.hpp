/// Weights in the files that people have: one safetensors file, or a folder of them as Hugging Face writes it.
#pragma once

#include <filesystem>

#include <mn/tensor/modules.hpp>

namespace mn {

/// Reads the tensors of a safetensors file; of the files that an index (model.safetensors.index.json) names; or of a
/// folder with an index or with model.safetensors. A tensor of a dtype that libtorch lacks (F4, C128, …) is returned as
/// its bytes, and a log line names one of these tensors. Throws DataError that names the file, also if a file lacks a
/// tensor of the index. Not collective.
[[nodiscard]] NamedTensors read_weights(const std::filesystem::path& path);

/// Returns the index or the weights file in a folder. If `path` is a file, returns `path`.
[[nodiscard]] std::filesystem::path weights_file(const std::filesystem::path& path);

/// True for a folder that read_weights() can read. False for a checkpoint's folder, which SavedCheckpoint reads.
[[nodiscard]] bool has_weights_files(const std::filesystem::path& folder);

}  // namespace mn
