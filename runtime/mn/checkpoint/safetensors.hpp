/// Reads and writes weights in safetensors files, which any framework can read
/// (https://github.com/huggingface/safetensors).
///
/// The file holds the header's size (u64, little endian), the header, then the data of all tensors without gaps. The
/// header is JSON. It has each tensor's name, dtype and shape, and where the tensor begins and ends in the data.
/// (1) Tensors with the widest elements are written first, and the data begins at a multiple of 8; therefore each
///     tensor is aligned.
/// (2) Reading accounts for every byte: a gap between tensors, an overlap, or bytes after the last tensor are errors.
/// Cost: to_safetensors() and from_safetensors() copy all tensors in host memory, and other functions the largest one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <mn/checkpoint/file_layout.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

class Communicator;
struct SavedTensor;

/// Texts in the header of a file, which do not belong to a tensor: a map from keys to texts.
using Metadata = std::map<std::string, std::string>;

/// Not collective: returns the bytes of a file with `tensors`, which may be on any device, and with `metadata` in its
/// header. Complex tensors are stored as pairs of real numbers, with the shape (…, 2), and the metadata "complex" lists
/// them. Throws ArgumentError if the format lacks a tensor's dtype.
[[nodiscard]] std::string to_safetensors(const NamedTensors& tensors, const Metadata& metadata = {});
/// Not collective: returns the tensors of a file with the content `bytes`, as new tensors on the CPU, in the order of
/// their data in the file. If the content violates the format, throws a DataError that begins with `source`.
[[nodiscard]] NamedTensors from_safetensors(std::string_view bytes, const std::string& source);

/// Reads a file, and returns its tensors as from_safetensors() does.
[[nodiscard]] NamedTensors load_safetensors(const std::filesystem::path& path);

/// The name under which the weight-averaging extension stores averages in a checkpoint. If a checkpoint has averages,
/// load_model() loads them in place of the weights.
inline constexpr const char* kWeightAverage = "WeightAverage";

/// The dtype and shape of a tensor.
struct TensorForm {
  at::ScalarType dtype = {};        ///< dtype of the elements
  std::vector<std::int64_t> shape;  ///< extents
};
/// Maps names of tensors to their dtypes and shapes.
using TensorForms = std::map<std::string, TensorForm>;

/// Returns dtype and shape of a tensor in a checkpoint. If the checkpoint stores complex numbers as pairs, the dtype is
/// complex.
[[nodiscard]] TensorForm form_of(const SavedTensor& saved);

/// Not collective: compares the module's tensors with `forms`. Throws a DataError that begins with `source` unless each
/// tensor of the module has the same dtype and shape in `forms`, and `forms` has no further tensor. Only tensors named
/// num_batches_tracked may be missing in `forms`; they are returned, and the caller sets them to 0.
[[nodiscard]] NamedTensors check_fits(torch::nn::Module& module, TensorForms forms, const std::string& source);

/// Not collective: copies `tensors` into the module's parameters and buffers. Skips a tensor if `skip` has its name or
/// the name of its layer. If names, shapes or dtypes do not match the module's, throws a DataError that begins with
/// `source` before any copy.
void copy_into(torch::nn::Module& module, const NamedTensors& tensors, const std::string& source,
               const std::vector<std::string>& skip = {});

/// The name of an extension. Its state in a checkpoint is of type Metadata.
inline constexpr const char* kModelMetadata = "ModelMetadata";

/// The most bytes of tensors in a file of weights: as many as Hugging Face writes.
inline constexpr std::uint64_t kBytesPerFile = 5'000'000'000;

/// Collective: rank 0 writes its weights to the file `path`, and all ranks wait. The file appears in one step, when it
/// is complete. If there are more than `most_bytes` bytes of weights, rank 0 writes several files and an index, as
/// Hugging Face does: with `path` "model.safetensors" they are called model-00001-of-00005.safetensors, …, and
/// model.safetensors.index.json. Of sharded parameters, rank 0 collects and writes one after the other, and needs
/// memory for one. If the folder of `path` is absent, rank 0 makes the folder. Throws an equal DataError on every rank.
void save_model(const std::filesystem::path& path, const torch::nn::Module& module, Communicator& comm,
                Metadata metadata = {}, std::uint64_t most_bytes = kBytesPerFile, const FileLayout& layout = {});
/// Collective: returns the metadata of a safetensors file or of a checkpoint, or none if it has none. Throws an equal
/// DataError on every rank if the file cannot be read.
[[nodiscard]] Metadata load_metadata(const std::filesystem::path& path, Communicator& comm);
/// Collective: rank 0 reads the weights and broadcasts them, tensor by tensor; of a sharded parameter each rank keeps
/// its piece. `path` is one of three: a safetensors file, or one in place of which save_model() has written several; a
/// folder with model.safetensors, or with model.safetensors.index.json and the files that this index names; or a
/// checkpoint, whose averaged weights, if there are any, are taken in place of the weights. `skip` names layers ("fc")
/// and tensors ("fc.bias") that keep rank 0's weights, such as the head of a network for new classes. Floating-point
/// tensors are cast to the module's dtype. The words "module." and "_orig_mod." of PyTorch's wrappers, and a common
/// prefix, are removed from names. Rank 0 logs these changes. Throws an equal DataError on every rank, also if the
/// model lacks a layer or tensor that `skip` names. If the storage fails, some weights are loaded, and others not.
void load_model(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm,
                const std::vector<std::string>& skip = {}, const FileLayout& layout = {});

/// The result of load_matching(): lists of the names of tensors that were loaded or not.
struct LoadReport {
  std::vector<std::string> loaded;      ///< loaded from the file
  std::vector<std::string> other_form;  ///< in both, with a different shape or dtype
  std::vector<std::string> missing;     ///< in the model alone
  std::vector<std::string> extra;       ///< in the file alone
};
/// Returns the report as one line: the number of loaded tensors, and the names of all other tensors.
[[nodiscard]] std::string to_string(const LoadReport& report);

/// Collective: loads as load_model() does, but only tensors whose name, shape and dtype match the module's; all other
/// tensors keep rank 0's weights. Meant for weights of a model with a different number of classes. Returns the same
/// report on every rank. Throws the same DataError on every rank if no tensor matches.
///
///   const mn::LoadReport report = mn::load_matching("pretrained.safetensors", *model, *comm);
///   if (comm->rank() == 0) std::cout << to_string(report) << std::endl;
LoadReport load_matching(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm,
                         const FileLayout& layout = {});

}  // namespace mn
