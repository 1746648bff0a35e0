#include <mn/checkpoint/safetensors.hpp>

#include <algorithm>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <mn/checkpoint/adapt_weights.hpp>
#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/checkpoint/weights_files.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

using nlohmann::json;

std::string shape_text(at::IntArrayRef shape) { return json(shape.vec()).dump(); }

void check_same(const std::string& name, const at::Tensor& wanted, const TensorForm& given, const std::string& source) {
  if (wanted.sizes() == at::IntArrayRef(given.shape) && given.dtype == wanted.scalar_type()) return;
  throw DataError(source + " is of another model: \"" + name + "\" is " + toString(given.dtype) + " " +
                  shape_text(given.shape) + " there and " + toString(wanted.scalar_type()) + " " +
                  shape_text(wanted.sizes()) + " in this one");
}

/// True if `skipped` contains the name of the tensor, or the name of a layer that holds the tensor. Then the tensor is
/// not loaded.
bool is_skipped(const std::string& name, const std::vector<std::string>& skipped) {
  return std::ranges::any_of(skipped, [&](const std::string& layer) {
    return name.starts_with(layer) && (name.size() == layer.size() || name[layer.size()] == '.');
  });
}

NamedTensors without(NamedTensors tensors, const std::vector<std::string>& skipped) {
  std::erase_if(tensors, [&](const auto& named) { return is_skipped(named.first, skipped); });
  return tensors;
}

void check_skipped(const NamedTensors& own, const std::vector<std::string>& skipped, const std::string& source) {
  for (const std::string& layer : skipped) {
    if (without(own, {layer}).size() < own.size()) continue;
    throw DataError("the model has no layer or tensor \"" + layer + "\" to leave out of " + source);
  }
}

/// Returns advice if the file lacks `name` but has a longer name, such as "model." + `name`. Otherwise returns an empty
/// text.
std::string prefix_advice(const std::string& name, const TensorForms& forms) {
  const auto found = std::ranges::find_if(forms, [&](const auto& form) { return form.first.ends_with("." + name); });
  if (found == forms.end()) return "";
  const std::string prefix = found->first.substr(0, found->first.size() - name.size());
  return ", but holds \"" + found->first + "\": remove \"" + prefix + "\" from the names in Python";
}

/// Does the work of check_fits() for `own`, the tensors of a module.
NamedTensors check_tensors(const NamedTensors& own, TensorForms forms, const std::string& source) {
  NamedTensors absent;
  for (const auto& [name, tensor] : own) {
    const auto found = forms.find(name);
    // A file may lack this count, because older frameworks do not write it, and only a batch normalization without
    // momentum reads it.
    if (found == forms.end() && name.ends_with(".num_batches_tracked")) {
      absent.emplace_back(name, tensor);
      continue;
    }
    if (found == forms.end()) {
      throw DataError(source + " is of another model: it lacks \"" + name + "\"" + prefix_advice(name, forms));
    }
    check_same(name, tensor, found->second, source);
  }
  for (const auto& [name, tensor] : own) forms.erase(name);
  if (!forms.empty()) {
    throw DataError(source + " is of another model: it holds \"" + forms.begin()->first + "\", which this one lacks");
  }
  return absent;
}

/// Reads the tensors of a checkpoint whose names begin with `prefix`. The result has the names without `prefix`.
NamedTensors read_all(SavedCheckpoint& checkpoint, const std::string& prefix) {
  NamedTensors tensors;
  for (const auto& [name, saved] : checkpoint.manifest().tensors) {
    if (!name.starts_with(prefix)) continue;
    const TensorForm form = form_of(saved);
    at::Tensor tensor = at::empty(form.shape, form.dtype);
    checkpoint.read(name, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
    tensors.emplace_back(name.substr(prefix.size()), std::move(tensor));
  }
  return tensors;
}

/// Replaces each weight by its average if the checkpoint has an average. A parameter with several names may have its
/// average under any of them.
void use_averages(torch::nn::Module& module, const NamedTensors& extensions, const std::vector<std::string>& skip) {
  const std::string prefix = kWeightAverage + std::string("/");
  const std::map<std::string, at::Tensor> all(extensions.begin(), extensions.end());
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : without(named_tensors(module), skip)) {
    const auto found = all.find(prefix + name);
    if (found != all.end() && found->second.sizes() == tensor.sizes()) tensor.detach().copy_(found->second);
  }
}

/// Returns the texts of the JSON object `name` in `document`, by key. Returns none if there is no such object.
Metadata metadata_of(const json& document, const char* name) {
  Metadata metadata;
  if (!document.is_object() || !document.contains(name)) return metadata;
  for (const auto& [key, value] : document[name].items()) {
    if (value.is_string()) metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

/// True if `path` is a checkpoint. False if it is a file, or a folder with weights. Throws DataError for any other
/// folder.
bool is_saved_checkpoint(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path) || has_weights_files(path)) return false;
  if (is_committed(path)) return true;
  throw DataError("there are no weights in the folder " + path.string() +
                  ": give a file, a folder with model.safetensors or its index, or a checkpoint (OUT/ckpt/step-N)" +
                  conversion_of(path));
}

Metadata read_metadata(const std::filesystem::path& path) {
  if (is_saved_checkpoint(path)) {
    return metadata_of(SavedCheckpoint(path).manifest().about.value("extensions", json()), kModelMetadata);
  }
  return metadata_of(read_safetensors_header(weights_file(path)), "__metadata__");
}

/// Collective: rank 0 reads the tensors of `path` and passes them to copy(tensors, source). Then all ranks get rank 0's
/// weights.
template <class Copy>
void load_on_root(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm,
                  const std::vector<std::string>& skip, const Copy& copy) {
  const std::string source = path.string();
  const auto take = [&](NamedTensors tensors) { copy(adapt_weights(std::move(tensors), module, source), source); };
  const auto load = [&] {
    if (!is_saved_checkpoint(path)) return take(read_weights(path));
    SavedCheckpoint checkpoint(path);
    take(read_all(checkpoint, "model/"));
    for (const std::string& prefix : {std::string("extensions/"), own_tensor_name(0, "extensions/")}) {
      use_averages(module, read_all(checkpoint, prefix), skip);
    }
  };
  on_root<DataError>(comm, load, true);
  comm.broadcast_data(module);
}

LoadReport copy_matching(torch::nn::Module& module, const NamedTensors& tensors, const std::string& source) {
  const at::NoGradGuard no_grad;
  LoadReport report;
  std::map<std::string, at::Tensor> given(tensors.begin(), tensors.end());
  for (const auto& [name, tensor] : named_tensors(module)) {
    const auto found = given.extract(name);
    if (found.empty()) {
      report.missing.push_back(name);
    } else if (found.mapped().sizes() != tensor.sizes() || found.mapped().scalar_type() != tensor.scalar_type()) {
      report.other_form.push_back(name);
    } else {
      at::Tensor(tensor).copy_(found.mapped());
      report.loaded.push_back(name);
    }
  }
  for (const auto& [name, tensor] : given) report.extra.push_back(name);
  if (report.loaded.empty()) throw DataError(source + " is of another model: no tensor fits; " + to_string(report));
  return report;
}

void append_names(std::string& text, const char* what, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? std::string("; ") + what + ": " : ", ") + names[i];
}

}  // namespace

std::string to_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  NamedTensors ordered = tensors;
  json complex = json::array();
  for (auto& [name, tensor] : ordered) {
    if (tensor.is_complex()) complex.push_back(name);
    tensor = as_pairs(tensor);
  }
  // Invariant 1: tensors with the widest elements come first, because readers that map the file into memory need each
  // tensor aligned. Tensors with elements of equal width are sorted by name.
  std::ranges::sort(ordered, {}, [](const auto& named) {
    return std::tuple(-static_cast<std::int64_t>(named.second.element_size()), named.first);
  });
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  if (!complex.empty()) header["__metadata__"][kComplexKey] = complex.dump();
  std::size_t end = 0;
  for (const auto& [name, tensor] : ordered) {
    const std::size_t begin = end;
    end += tensor.nbytes();
    header[name] = {{"dtype", safetensors_dtype(name, tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {begin, end}}};
  }
  std::string file = safetensors_header(header);
  file.reserve(file.size() + end);
  for (const auto& [name, tensor] : ordered) {
    const at::Tensor dense = tensor.detach().to(at::kCPU).contiguous();
    if (dense.numel() > 0) file.append(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
  }
  return file;
}

NamedTensors from_safetensors(std::string_view bytes, const std::string& source) {
  NamedTensors tensors;
  for (const SafetensorsEntry& entry : parse_safetensors_header(bytes, source)) {
    tensors.emplace_back(entry.name, to_tensor(entry, source));
  }
  return tensors;
}

TensorForm form_of(const SavedTensor& saved) {
  TensorForm form{torch_dtype(saved.dtype), saved.shape};
  if (!saved.is_complex) return form;
  form.dtype = c10::toComplexType(form.dtype);
  form.shape.pop_back();
  return form;
}

NamedTensors load_safetensors(const std::filesystem::path& path) {
  return from_safetensors(read_file(path), path.string());
}

NamedTensors check_fits(torch::nn::Module& module, TensorForms forms, const std::string& source) {
  return check_tensors(named_tensors(module), std::move(forms), source);
}

void copy_into(torch::nn::Module& module, const NamedTensors& tensors, const std::string& source,
               const std::vector<std::string>& skip) {
  check_skipped(named_tensors(module), skip, source);
  const NamedTensors own = without(named_tensors(module), skip), wanted = without(tensors, skip);
  const std::map<std::string, at::Tensor> given(wanted.begin(), wanted.end());
  TensorForms forms;
  for (const auto& [name, tensor] : wanted) forms[name] = {tensor.scalar_type(), tensor.sizes().vec()};
  // All tensors are compared before the first copy. Therefore the module is unchanged after an error.
  const NamedTensors absent = check_tensors(own, std::move(forms), source);
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : absent) at::Tensor(tensor).zero_();
  for (const auto& [name, tensor] : own) {
    if (const auto found = given.find(name); found != given.end()) at::Tensor(tensor).copy_(found->second);
  }
}

void save_model(const std::filesystem::path& path, const torch::nn::Module& module, Communicator& comm,
                Metadata metadata) {
  metadata.emplace("format", "pt");
  const WholeParameters whole(module);
  on_root<DataError>(
      comm,
      [&] {
        std::error_code no_folder;  // the write reports the error
        std::filesystem::create_directories(path.parent_path(), no_folder);
        write_file(path, to_safetensors(named_tensors(module), metadata));
      },
      true);
}

void load_model(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm,
                const std::vector<std::string>& skip) {
  load_on_root(path, module, comm, skip, [&](const NamedTensors& tensors, const std::string& source) {
    copy_into(module, tensors, source, skip);
  });
}

Metadata load_metadata(const std::filesystem::path& path, Communicator& comm) {
  Metadata metadata;
  on_root<DataError>(
      comm, [&] { metadata = read_metadata(path); }, true);
  return comm.bcast_obj(json(metadata)).get<Metadata>();
}

LoadReport load_matching(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm) {
  LoadReport report;
  load_on_root(path, module, comm, {}, [&](const NamedTensors& tensors, const std::string& source) {
    report = copy_matching(module, tensors, source);
  });
  const json all = comm.bcast_obj(json::array({report.loaded, report.other_form, report.missing, report.extra}));
  const auto names = [&](std::size_t i) { return all.at(i).get<std::vector<std::string>>(); };
  return {names(0), names(1), names(2), names(3)};
}

std::string to_string(const LoadReport& report) {
  const std::size_t own = report.loaded.size() + report.other_form.size() + report.missing.size();
  std::string text =
      std::to_string(report.loaded.size()) + " of the model's " + std::to_string(own) + " tensors loaded";
  append_names(text, "of another shape or dtype", report.other_form);
  append_names(text, "missing in the file", report.missing);
  append_names(text, "only in the file", report.extra);
  return text;
}

}  // namespace mn
