/// Finds and opens weights: one safetensors file, a folder as Hugging Face writes it, with several files and an index,
/// or a checkpoint.
#pragma once

#include <filesystem>
#include <string>

#include <mn/checkpoint/weights_reader.hpp>

namespace mn {

/// Not collective: reads the headers of a safetensors file, of the files that an index (model.safetensors.index.json)
/// names, or of the files of a folder with an index or with model.safetensors; or the manifest of a checkpoint, whose
/// averages the extension `averages` has saved. If libtorch lacks the dtype of a tensor (F4, C128, …), the tensor is
/// one of bytes, and a log line names one. If a file cannot be read, or lacks a tensor of the index, throws a DataError
/// that names the file.
[[nodiscard]] WeightsReader open_weights(const std::filesystem::path& path, const std::string& averages);

/// True if `path` is a checkpoint. False if it is a file, or a folder with weights. Throws DataError for any other
/// folder.
[[nodiscard]] bool is_saved_checkpoint(const std::filesystem::path& path);

/// The name of the index of weights that are written as `file`, but need several files.
[[nodiscard]] std::filesystem::path index_of(std::filesystem::path file);
/// True if `file` is the index of several files.
[[nodiscard]] bool is_index(const std::filesystem::path& file);

/// Returns the path of the file or of the index that has the weights. `path` is a folder, a file, an index, or a file
/// in place of which an index was written.
[[nodiscard]] std::filesystem::path weights_file(const std::filesystem::path& path);

/// True if the folder has model.safetensors or an index. False for the folder of a checkpoint.
[[nodiscard]] bool has_weights_files(const std::filesystem::path& folder);

/// Returns a text for an error message: how to convert the weights of PyTorch (pytorch_model*.bin) in a folder. Returns
/// an empty text if the folder has no weights of this kind.
[[nodiscard]] std::string conversion_of(const std::filesystem::path& folder);

}  // namespace mn
