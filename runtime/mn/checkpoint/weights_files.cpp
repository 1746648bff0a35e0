#include <mn/checkpoint/weights_files.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/checkpoint/format/weights_index.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

/// Open files, and where the tensors lie in them.
struct Files {
  std::vector<File> files;
  std::vector<std::pair<std::size_t, std::uint64_t>> places;  // [tensors] the number of the file, and an offset

  void read(std::size_t tensor, std::span<std::byte> out) const {
    const auto [file, offset] = places[tensor];
    files[file].read_at(offset, out);
  }
};

/// Opens a file, and appends its tensors.
void open_one(const fs::path& path, Files& files, NamedTensors& tensors) {
  File file(path, File::Mode::kRead);
  std::size_t unknown = 0;
  std::string example;
  for (const SafetensorsEntry& entry : read_safetensors_entries(file)) {
    files.places.emplace_back(files.files.size(), entry.begin);
    if (has_torch_dtype(entry.dtype)) {
      tensors.emplace_back(entry.name, form_of_stored(entry.dtype, entry.shape, entry.is_complex));
      continue;
    }
    const auto bytes = static_cast<std::int64_t>(entry.end - entry.begin);
    tensors.emplace_back(entry.name, form_of_stored("U8", {bytes}, false));
    if (unknown++ == 0) example = json_quoted(entry.name) + " of " + entry.dtype;
  }
  files.files.push_back(std::move(file));
  if (unknown > 0) {
    log_info(path.string() + ": " + std::to_string(unknown) +
             " tensors of dtypes that libtorch lacks are not used: " + example + (unknown > 1 ? ", …" : ""));
  }
}

void open_index(const fs::path& index, Files& files, NamedTensors& tensors) {
  for (auto& [file, names] : read_weights_index(index)) {
    const fs::path path = index.parent_path() / file;
    const std::size_t first = tensors.size();
    open_one(path, files, tensors);
    for (std::size_t i = first; i < tensors.size(); ++i) names.erase(tensors[i].first);
    if (!names.empty())
      throw DataError(path.string() + " lacks " + json_quoted(*names.begin()) + ", which " + kIndex + " names");
  }
}

WeightsReader open_files(const fs::path& path) {
  const fs::path file = weights_file(path);
  const auto files = std::make_shared<Files>();
  WeightsReader reader;
  is_index(file) ? open_index(file, *files, reader.tensors) : open_one(file, *files, reader.tensors);
  reader.read_bytes = [files](std::size_t i, std::span<std::byte> out) { files->read(i, out); };
  return reader;
}

WeightsReader open_checkpoint(const fs::path& path, const std::string& averages) {
  const auto checkpoint = std::make_shared<SavedCheckpoint>(path);
  WeightsReader reader;
  std::vector<std::string> names;
  const auto add = [&](const std::string& prefix, NamedTensors& tensors) {
    for (const auto& [name, saved] : checkpoint->manifest().tensors) {
      if (!name.starts_with(prefix)) continue;
      tensors.emplace_back(name.substr(prefix.size()), form_of_stored(saved.dtype, saved.shape, saved.is_complex));
      names.push_back(name);
    }
  };
  add("model/", reader.tensors);
  const std::string prefix = "extensions/" + averages + "/";
  add(prefix, reader.averages);
  add(own_tensor_name(0, prefix), reader.averages);
  reader.read_bytes = [checkpoint, names](std::size_t i, std::span<std::byte> out) { checkpoint->read(names[i], out); };
  return reader;
}

}  // namespace

bool has_weights_files(const fs::path& folder) { return fs::exists(folder / kIndex) || fs::exists(folder / kFile); }

fs::path index_of(fs::path file) { return file += ".index.json"; }

bool is_index(const fs::path& file) { return file.extension() == ".json"; }

fs::path weights_file(const fs::path& path) {
  if (!fs::is_directory(path)) return !fs::exists(path) && fs::exists(index_of(path)) ? index_of(path) : path;
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

WeightsReader open_weights(const fs::path& path, const std::string& averages) {
  return is_saved_checkpoint(path) ? open_checkpoint(path, averages) : open_files(path);
}

bool is_saved_checkpoint(const fs::path& path) {
  if (!fs::is_directory(path) || has_weights_files(path)) return false;
  if (is_committed(path)) return true;
  throw DataError("there are no weights in the folder " + path.string() +
                  ": give a file, a folder with model.safetensors or its index, or a checkpoint (OUT/ckpt/step-N)" +
                  conversion_of(path));
}

}  // namespace mn
