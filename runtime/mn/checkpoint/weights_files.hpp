/// Weights in the files that people have: one safetensors file, or a folder of them as Hugging Face writes it.
#pragma once

#include <filesystem>

#include <mn/tensor/modules.hpp>

namespace mn {

/// Reads the tensors of a safetensors file; of an index (model.safetensors.index.json), which names the file of each
/// tensor; or of a folder with an index or with model.safetensors. Tensors of dtypes that libtorch lacks (F4, C128, …)
/// come as their bytes, and a log line names one of them. Throws DataError that names the file, also if a file lacks a
/// tensor of the index. Local.
[[nodiscard]] NamedTensors read_weights(const std::filesystem::path& path);

/// The index or the file in a folder with weights; the path of a file itself.
[[nodiscard]] std::filesystem::path weights_file(const std::filesystem::path& path);

/// True for a folder that read_weights() reads, and not SavedCheckpoint.
[[nodiscard]] bool has_weights_files(const std::filesystem::path& folder);

}  // namespace mn
