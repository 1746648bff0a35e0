// Writes weights (safetensors.hpp).
#include <mn/checkpoint/safetensors.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/checkpoint/weights_files.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/sharding/pieces.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Tensors in the order of a file.
struct Ordered {
  NamedTensors tensors;           // complex tensors as pairs
  std::set<std::string> complex;  // their names
};

/// Invariant 1: tensors with the widest elements come first, because readers that map the file into memory need each
/// tensor aligned. Tensors with elements of equal width are sorted by name.
Ordered order(NamedTensors tensors) {
  Ordered result;
  for (auto& [name, tensor] : tensors) {
    if (tensor.is_complex()) result.complex.insert(name);
    tensor = as_pairs(tensor);
  }
  std::ranges::sort(tensors, {}, [](const auto& named) {
    return std::tuple(-static_cast<std::int64_t>(named.second.element_size()), named.first);
  });
  result.tensors = std::move(tensors);
  return result;
}

using Part = std::span<const NamedTensors::value_type>;  // the tensors of one file

/// The shape of a tensor in a file.
std::vector<std::int64_t> stored_shape(const NamedTensors::value_type& named, const FileLayout& layout) {
  std::vector<std::int64_t> shape = named.second.sizes().vec();
  if (layout.transposes(named.first)) std::ranges::reverse(shape);
  return shape;
}

std::string header_of(Part tensors, const std::set<std::string>& complex, const Metadata& metadata,
                      const FileLayout& layout = {}) {
  json header = json::object(), own_complex = json::array();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t end = 0;
  for (const auto& named : tensors) {
    const auto& [name, tensor] = named;
    const std::size_t begin = end;
    end += tensor.nbytes();
    header[layout.prefix + name] = {{"dtype", safetensors_dtype(name, tensor.scalar_type())},
                                    {"shape", stored_shape(named, layout)},
                                    {"data_offsets", {begin, end}}};
    if (complex.contains(name)) own_complex.push_back(name);
  }
  if (!own_complex.empty()) header["__metadata__"][kComplexKey] = own_complex.dump();
  return safetensors_header(header);
}

/// Passes the bytes of a tensor on any device to write(text).
template <class Write>
void write_bytes(const at::Tensor& tensor, const Write& write) {
  const at::Tensor dense = tensor.detach().to(at::kCPU).contiguous();
  if (dense.numel() == 0) return;
  if (dense.const_data_ptr() == nullptr) {
    throw UsageError(
        "a parameter has no values: it was sharded (--shard parameters), and its values ended with the optimizer");
  }
  write(std::string_view(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()));
}

/// Cuts the tensors into files of at most `most_bytes` bytes of data. A larger tensor has a file of its own.
std::vector<Part> cut(const NamedTensors& tensors, std::uint64_t most_bytes) {
  std::vector<Part> files;
  std::size_t first = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t more = tensors[i].second.nbytes();
    if (i > first && bytes + more > most_bytes) {
      files.push_back(Part(tensors).subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += more;
  }
  files.push_back(Part(tensors).subspan(first));
  return files;
}

/// The name of file i of `files`: "model.safetensors", or "model-00001-of-00005.safetensors", as Hugging Face has it.
fs::path file_name(const fs::path& path, std::size_t i, std::size_t files) {
  if (files == 1) return path;
  const auto five = [](std::size_t number) {
    const std::string digits = std::to_string(number);
    return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
  };
  fs::path name = path.parent_path() / path.stem();
  return name += "-" + five(i + 1) + "-of-" + five(files) + path.extension().string();
}

std::string index_text(const fs::path& path, const std::vector<Part>& files, const Metadata& metadata,
                       const std::string& prefix) {
  json map = json::object();
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const auto& [name, tensor] : files[i]) {
      map[prefix + name] = file_name(path, i, files.size()).filename().string();
      bytes += tensor.nbytes();
    }
  }
  json about = metadata;
  about["total_size"] = bytes;
  return json({{"metadata", about}, {"weight_map", map}}).dump(2) + "\n";
}

}  // namespace

std::string to_safetensors(const NamedTensors& tensors, const Metadata& metadata) {
  const Ordered ordered = order(tensors);
  std::string file = header_of(ordered.tensors, ordered.complex, metadata);
  for (const auto& [name, tensor] : ordered.tensors) {
    write_bytes(tensor, [&](std::string_view bytes) { file.append(bytes); });
  }
  return file;
}

void save_model(const fs::path& path, const torch::nn::Module& module, Communicator& comm, Metadata metadata,
                std::uint64_t most_bytes, const FileLayout& layout) {
  metadata.emplace("format", "pt");
  const Ordered ordered = order(named_tensors(module));
  const std::vector<Part> files = cut(ordered.tensors, most_bytes);
  std::vector<std::unique_ptr<AtomicFile>> written;
  RootWork root(comm);
  root.attempt([&] {
    std::error_code no_folder;  // the write reports the error
    fs::create_directories(path.parent_path(), no_folder);
  });
  for (std::size_t i = 0; i < files.size(); ++i) {
    root.attempt([&] {
      written.push_back(std::make_unique<AtomicFile>(file_name(path, i, files.size())));
      written.back()->write(header_of(files[i], ordered.complex, metadata, layout));
    });
    for (const auto& [name, tensor] : files[i]) {
      const at::Tensor whole = whole_on_root(tensor);
      const auto write = [&](std::string_view bytes) { written.back()->write(bytes); };
      root.attempt([&] { write_bytes(layout.transposes(name) ? whole.t() : whole, write); });
    }
  }
  root.attempt([&] {
    for (const auto& file : written) file->commit();
    if (files.size() > 1) write_file(index_of(path), index_text(path, files, metadata, layout.prefix));
    fs::remove(files.size() > 1 ? path : index_of(path));  // of an earlier save, now outdated
  });
  root.agree<DataError>(true);
}

}  // namespace mn
