/// Reads weights: one safetensors file, or a folder as Hugging Face writes it, with several files and an index.
#pragma once

#include <filesystem>
#include <string>

#include <mn/tensor/modules.hpp>

namespace mn {

/// Not collective: reads the tensors of a safetensors file, of the files that an index (model.safetensors.index.json)
/// names, or of a folder with an index or with model.safetensors. If libtorch lacks the dtype of a tensor (F4, C128,
/// …), the tensor is returned as bytes, and a log line names one. If a file cannot be read, or lacks a tensor of the
/// index, throws a DataError that names the file.
[[nodiscard]] NamedTensors read_weights(const std::filesystem::path& path);

/// Returns `path` itself if it is a file; in a folder the index or, without an index, model.safetensors.
[[nodiscard]] std::filesystem::path weights_file(const std::filesystem::path& path);

/// True if read_weights() can read the folder; false for a checkpoint's folder, which SavedCheckpoint reads.
[[nodiscard]] bool has_weights_files(const std::filesystem::path& folder);

/// Text for an error: how to convert the weights of PyTorch (pytorch_model*.bin) in a folder. Empty if it has none.
[[nodiscard]] std::string conversion_of(const std::filesystem::path& folder);

}  // namespace mn
