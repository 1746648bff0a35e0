/// Weights as a safetensors file, which any framework can load: u64 bytes of the header (little endian), a JSON header
/// of names, dtypes, shapes and offsets, then the data. Format: https://github.com/huggingface/safetensors.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

/// The file's bytes. Throws ArgumentError for a dtype that the format lacks.
[[nodiscard]] std::string to_safetensors(const NamedTensors& tensors,
                                         const std::map<std::string, std::string>& metadata = {});
/// Tensors of their own memory on the CPU, in the order in which they lie. Throws DataError that begins with `source`
/// unless every byte is what the format says.
[[nodiscard]] NamedTensors from_safetensors(std::string_view bytes, const std::string& source);

/// Copies into the module's parameters and buffers. Throws DataError that begins with `source`, with nothing copied,
/// unless names, shapes and dtypes are the module's own.
void copy_into(torch::nn::Module& module, const NamedTensors& tensors, const std::string& source);

/// Collective: rank 0 writes its weights, atomically; failures are thrown on all ranks alike.
void save_model(const std::filesystem::path& path, const torch::nn::Module& module, Communicator& comm);
/// Collective: rank 0 reads, every rank ends with the same weights. Throws DataError on all ranks alike.
void load_model(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm);

}  // namespace mn
