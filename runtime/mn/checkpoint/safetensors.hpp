/// Weights in a safetensors file, for any framework (https://github.com/huggingface/safetensors).
///
/// The file: the header's size (u64, little endian), the header, then the data of all tensors without gaps. The header
/// is JSON: for each tensor its name, dtype, shape, begin and end in the data.
/// (1) Files are written with wide elements first, and the data begins at a multiple of 8, so each tensor is aligned.
/// (2) Reading accounts for every byte: a gap between tensors, an overlap, or bytes after the last tensor are errors.
/// Cost: a copy of all tensors in host memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <mn/tensor/modules.hpp>

namespace mn {

class Communicator;
struct SavedTensor;

/// Returns the bytes of a file with `tensors`, which may be on any device, and with `metadata` in its header. Complex
/// tensors are stored as pairs of real numbers, (…, 2), and listed in the metadata "complex". Throws ArgumentError for
/// a dtype unknown to the format. Not collective.
[[nodiscard]] std::string to_safetensors(const NamedTensors& tensors,
                                         const std::map<std::string, std::string>& metadata = {});
/// Returns the tensors of a file, whose bytes are `bytes`, on the CPU, in new memory, in the order of their data in the
/// file. Throws DataError that begins with `source` if the bytes violate the format. Not collective.
[[nodiscard]] NamedTensors from_safetensors(std::string_view bytes, const std::string& source);

/// Reads a file, and returns its tensors as from_safetensors() does.
[[nodiscard]] NamedTensors load_safetensors(const std::filesystem::path& path);

/// Name of the weight-averaging extension in a checkpoint: load_model() prefers its averages.
inline constexpr const char* kWeightAverage = "WeightAverage";

/// The dtype and shape of a tensor.
struct TensorForm {
  at::ScalarType dtype = {};        ///< dtype of the elements
  std::vector<std::int64_t> shape;  ///< extents
};
/// Forms of tensors, by name.
using TensorForms = std::map<std::string, TensorForm>;

/// The form of a tensor in a checkpoint. Pairs that stand for complex numbers have a complex dtype.
[[nodiscard]] TensorForm form_of(const SavedTensor& saved);

/// Throws DataError that begins with `source` unless each tensor of the module has the same dtype and shape in `forms`,
/// and `forms` has no other tensor. `forms` may lack the module's tensors num_batches_tracked. Returns the missing
/// tensors, which the caller sets to 0. Not collective.
[[nodiscard]] NamedTensors check_fits(torch::nn::Module& module, TensorForms forms, const std::string& source);

/// Copies tensors into the module's parameters and buffers. Leaves alone the tensors and layers named in `skip`. Throws
/// DataError that begins with `source`, before any copy, unless names, shapes and dtypes match the module's. Not
/// collective.
void copy_into(torch::nn::Module& module, const NamedTensors& tensors, const std::string& source,
               const std::vector<std::string>& skip = {});

/// Texts that a file holds beside its tensors: name → text.
using Metadata = std::map<std::string, std::string>;
/// Name of the extension in a checkpoint whose state is a Metadata.
inline constexpr const char* kModelMetadata = "ModelMetadata";

/// Collective: rank 0 writes its weights atomically, and creates the folder of `path` if need be; all ranks wait.
/// Throws the same DataError on every rank.
void save_model(const std::filesystem::path& path, const torch::nn::Module& module, Communicator& comm,
                Metadata metadata = {});
/// Collective: the metadata of a safetensors file or of a checkpoint; empty without metadata. Throws the same DataError
/// on every rank if the file can't be read.
[[nodiscard]] Metadata load_metadata(const std::filesystem::path& path, Communicator& comm);
/// Collective: rank 0 reads the weights and broadcasts them. `path` is a safetensors file; a folder with
/// model.safetensors, or with model.safetensors.index.json and the files that this index names; or a checkpoint, from
/// which averaged weights are preferred. `skip` names layers ("fc") and tensors ("fc.bias") that keep rank 0's weights,
/// such as the head of a network for new classes. Floating-point tensors are cast to the module's dtype. From names,
/// the "module." and "_orig_mod." of PyTorch's wrappers and a common prefix are removed. Rank 0 logs these changes.
/// Throws the same DataError on every rank, also if the model has no layer or tensor of a name in `skip`.
void load_model(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm,
                const std::vector<std::string>& skip = {});

/// The outcome of load_matching(): names of tensors.
struct LoadReport {
  std::vector<std::string> loaded;      ///< loaded from the file
  std::vector<std::string> other_form;  ///< in both, with a different shape or dtype
  std::vector<std::string> missing;     ///< in the model alone
  std::vector<std::string> extra;       ///< in the file alone
};
/// The report in one line: the number of loaded tensors, and the names of all tensors that were not loaded.
[[nodiscard]] std::string to_string(const LoadReport& report);

/// Collective: loads as load_model() does, but only tensors whose name, shape and dtype match the module's; all other
/// tensors keep rank 0's weights. Meant for weights of a model with a different number of classes. Returns the same
/// report on every rank. Throws the same DataError on every rank if no tensor matches.
///
///   const mn::LoadReport report = mn::load_matching("pretrained.safetensors", *model, *comm);
///   if (comm->rank() == 0) std::cout << to_string(report) << std::endl;
LoadReport load_matching(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm);

}  // namespace mn
