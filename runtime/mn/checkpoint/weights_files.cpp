#include <mn/checkpoint/weights_files.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include <ATen/ops/empty.h>

#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

/// Reads a file, and appends its tensors to `tensors`.
void read_one(const fs::path& path, NamedTensors& tensors) {
  const std::string bytes = read_file(path);
  const std::string source = path.string();
  std::size_t unknown = 0;
  std::string example;
  for (SafetensorsEntry& entry : parse_safetensors_header(bytes, source)) {
    if (has_torch_dtype(entry.dtype)) {
      tensors.emplace_back(entry.name, to_tensor(entry, source));
      continue;
    }
    at::Tensor raw = at::empty({static_cast<std::int64_t>(entry.bytes.size())}, at::kByte);
    if (!entry.bytes.empty()) std::memcpy(raw.mutable_data_ptr(), entry.bytes.data(), entry.bytes.size());
    if (unknown++ == 0) example = json_quoted(entry.name) + " of " + entry.dtype;
    tensors.emplace_back(std::move(entry.name), std::move(raw));
  }
  if (unknown > 0) {
    log_info(source + ": " + std::to_string(unknown) +
             " tensors of dtypes that libtorch lacks are not used: " + example + (unknown > 1 ? ", …" : ""));
  }
}

[[noreturn]] void throw_no_index(const fs::path& index, const std::string& why) {
  throw DataError(index.string() + " is not an index of weights: " + why +
                  "; download the model again, or give one of its .safetensors files");
}

nlohmann::json read_document(const fs::path& index) {
  const std::string text = read_file(index);
  try {
    return parse_json(text, "it");
  } catch (const DataError& error) {
    throw_no_index(index, error.what());
  }
}

/// Returns the names of files, and for each file the names of its tensors, as an index file lists them. All files must
/// lie in the folder of the index.
std::map<std::string, std::set<std::string>> files_of_index(const fs::path& index) {
  std::map<std::string, std::set<std::string>> files;
  const nlohmann::json document = read_document(index);
  const bool has_map = document.is_object() && document.contains("weight_map") && document["weight_map"].is_object();
  if (!has_map) throw_no_index(index, "it has no object \"weight_map\", which names the file of each tensor");
  for (const auto& [name, file] : document["weight_map"].items()) {
    if (!file.is_string()) throw_no_index(index, "its \"weight_map\" has no file for " + json_quoted(name));
    files[file.get<std::string>()].insert(name);
  }
  if (files.empty()) throw_no_index(index, "its \"weight_map\" is empty");
  for (const auto& [file, names] : files) {
    if (fs::path(file).filename() != file) throw DataError(index.string() + " names a file elsewhere: " + file);
  }
  return files;
}

NamedTensors read_index(const fs::path& index) {
  NamedTensors tensors;
  for (auto& [file, names] : files_of_index(index)) {
    const fs::path path = index.parent_path() / file;
    const std::size_t first = tensors.size();
    read_one(path, tensors);
    for (std::size_t i = first; i < tensors.size(); ++i) names.erase(tensors[i].first);
    if (!names.empty())
      throw DataError(path.string() + " lacks \"" + *names.begin() + "\", which " + kIndex + " names");
  }
  return tensors;
}

}  // namespace

bool has_weights_files(const fs::path& folder) { return fs::exists(folder / kIndex) || fs::exists(folder / kFile); }

fs::path weights_file(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  return path / (fs::exists(path / kIndex) ? kIndex : kFile);
}

std::string conversion_of(const fs::path& folder) {
  const auto is_torch = [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with("pytorch_model") && entry.path().extension() == ".bin";
  };
  if (std::none_of(fs::directory_iterator(folder), fs::directory_iterator(), is_torch)) return {};
  return ". Convert its pytorch_model*.bin once: python3 -c \"import glob, torch, safetensors.torch as s; w = {}; "
         "[w.update(torch.load(f, map_location='cpu', weights_only=True)) for f in glob.glob('" +
         (folder / "pytorch_model*.bin").string() +
         "')]; s.save_file({k: v.clone().contiguous() for k, v in "
         "w.items()}, '" +
         (folder / kFile).string() + "')\"";
}

NamedTensors read_weights(const fs::path& path) {
  const fs::path file = weights_file(path);
  if (file.extension() == ".json") return read_index(file);
  NamedTensors tensors;
  read_one(file, tensors);
  return tensors;
}

}  // namespace mn
