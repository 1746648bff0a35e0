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

/// Returns `path` itself if it is a file. If `path` is a folder, returns the path of its index, or of model.safetensors
/// if the folder has no index.
[[nodiscard]] std::filesystem::path weights_file(const std::filesystem::path& path);

/// True if read_weights() can read the folder. False for the folder of a checkpoint, because SavedCheckpoint reads
/// checkpoints.
[[nodiscard]] bool has_weights_files(const std::filesystem::path& folder);

/// Returns a text for an error message: how to convert the weights of PyTorch (pytorch_model*.bin) in a folder. Returns
/// an empty text if the folder has no weights of this kind.
[[nodiscard]] std::string conversion_of(const std::filesystem::path& folder);

}  // namespace mn
