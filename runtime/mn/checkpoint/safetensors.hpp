/// Weights as a safetensors file, which any framework can load (https://github.com/huggingface/safetensors).
///
/// The file: u64 bytes of the header (little endian), the header, then the data of all tensors, back to back and
/// contiguous. The header is JSON: for each tensor its name, dtype, shape, and begin and end in the data.
/// (1) Written files hold wide elements first, and the data begins at a multiple of 8, so each tensor is aligned.
/// (2) A file that is read must account for every byte: without gaps, overlaps or a rest.
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

/// The bytes of a file with these tensors, from any device; `metadata` is the header's. Complex tensors are stored as
/// pairs of real numbers, (…, 2), and listed in the metadata "complex". Throws ArgumentError for a dtype that the
/// format lacks. Local.
[[nodiscard]] std::string to_safetensors(const NamedTensors& tensors,
                                         const std::map<std::string, std::string>& metadata = {});
/// The tensors, on the CPU, with memory of their own, in the order of their data. Throws DataError that begins with
/// `source` unless every byte is what the format says. Local.
[[nodiscard]] NamedTensors from_safetensors(std::string_view bytes, const std::string& source);

/// The same of a file.
[[nodiscard]] NamedTensors load_safetensors(const std::filesystem::path& path);

/// The name in a checkpoint of the extension that averages weights: load_model() takes the weights that it left.
inline constexpr const char* kWeightAverage = "WeightAverage";

/// A tensor without its elements.
struct TensorForm {
  at::ScalarType dtype = {};        ///< its dtype
  std::vector<std::int64_t> shape;  ///< its extents
};
/// Tensors of a file by their names.
using TensorForms = std::map<std::string, TensorForm>;

/// Of a tensor in a checkpoint: complex where its pairs stand for that.
[[nodiscard]] TensorForm form_of(const SavedTensor& saved);

/// Throws DataError that begins with `source` unless names, shapes and dtypes are the module's own. Returns the
/// module's tensors that may be absent, and are: they become 0. Local.
[[nodiscard]] NamedTensors check_fits(torch::nn::Module& module, TensorForms given, const std::string& source);

/// Copies tensors into the module's parameters and buffers. Throws DataError that begins with `source`, with nothing
/// copied, unless names, shapes and dtypes are the module's own, but for names that begin with one of `skip` and a dot,
/// or are it: those stay. Local.
void copy_into(torch::nn::Module& module, const NamedTensors& tensors, const std::string& source,
               const std::vector<std::string>& skip = {});

/// What a file says beside its tensors: texts by their names.
using Metadata = std::map<std::string, std::string>;
/// The name in a checkpoint of the extension whose state is such a record.
inline constexpr const char* kModelMetadata = "ModelMetadata";

/// Collective: rank 0 writes its weights, atomically, into a folder that it makes if need be; all ranks wait for it.
/// Throws the same DataError on every rank.
void save_model(const std::filesystem::path& path, const torch::nn::Module& module, Communicator& comm,
                Metadata metadata = {});
/// Collective: the metadata of a file of safetensors or of a checkpoint; empty if it has none. Throws the same
/// DataError on every rank if the file can't be read.
[[nodiscard]] Metadata load_metadata(const std::filesystem::path& path, Communicator& comm);
/// Collective: rank 0 reads, and every rank ends with the same weights. `path` is what save_model() wrote, or a
/// checkpoint: its averaged weights then, if it has some. What `skip` names, a layer ("fc") or a tensor ("fc.bias"),
/// stays as rank 0 has it, whatever the file has there: the head of a network for other classes. Floats become the
/// module's dtype, and names lose the "module." and "_orig_mod." of PyTorch's wrappers: rank 0 logs it. Throws the same
/// DataError on every rank, also if the model has nothing of a name in `skip`.
void load_model(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm,
                const std::vector<std::string>& skip = {});

/// Names of tensors: what load_matching() did with each.
struct LoadReport {
  std::vector<std::string> loaded;      ///< taken from the file
  std::vector<std::string> other_form;  ///< in both, but of another shape or dtype
  std::vector<std::string> missing;     ///< in the model alone
  std::vector<std::string> extra;       ///< in the file alone
};
/// One line with all names but those of loaded tensors, which it counts.
[[nodiscard]] std::string to_string(const LoadReport& report);

/// Collective: as load_model(), of those tensors whose name, shape and dtype are the module's own; the others stay as
/// rank 0 has them. For weights of a model with another number of classes, say. Returns the same report on every rank.
/// Throws the same DataError on every rank if no tensor fits.
LoadReport load_matching(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm);

}  // namespace mn
