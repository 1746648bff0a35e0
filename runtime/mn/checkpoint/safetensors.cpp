#include <mn/checkpoint/safetensors.hpp>

#include <algorithm>
#include <span>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <mn/checkpoint/adapt_weights.hpp>
#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/checkpoint/weights_files.hpp>
#include <mn/checkpoint/weights_reader.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/sharding/pieces.hpp>
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

/// The names for an error message, which lists the first ones.
std::string quoted(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNames = 8;
  const std::size_t count = std::min(names.size(), kMaxNames);
  const std::string list = join(std::span(names).first(count), ", ", json_quoted);
  return count == names.size() ? list : list + " and " + std::to_string(names.size() - count) + " more";
}

/// Does the work of check_fits() for `own`, the tensors of a module.
NamedTensors check_tensors(const NamedTensors& own, TensorForms forms, const std::string& source) {
  NamedTensors absent;
  std::vector<std::string> missing, extra;
  for (const auto& [name, tensor] : own) {
    const auto found = forms.find(name);
    if (found != forms.end()) {
      check_same(name, tensor, found->second, source);
    } else if (name.ends_with(".num_batches_tracked")) {
      // A file may lack this count, because older frameworks do not write it, and only a batch normalization without
      // momentum reads it.
      absent.emplace_back(name, tensor);
    } else {
      missing.push_back(name);
    }
  }
  const std::string advice = missing.empty() ? "" : prefix_advice(missing.front(), forms);
  for (const auto& [name, tensor] : own) forms.erase(name);
  for (const auto& [name, form] : forms) extra.push_back(name);
  if (!missing.empty()) throw DataError(source + " is of another model: it lacks " + quoted(missing) + advice);
  if (!extra.empty()) {
    throw DataError(source + " is of another model: it holds " + quoted(extra) + ", which this one lacks");
  }
  return absent;
}

/// What to load: tensors of the module, and for each its number among the tensors of the file.
using Plan = std::vector<std::pair<at::Tensor, std::size_t>>;

/// Plans to load all tensors except those in `skip`. Throws DataError if names, shapes or dtypes do not match.
Plan plan_all(torch::nn::Module& module, const NamedTensors& tensors, const std::string& source,
              const std::vector<std::string>& skip) {
  check_skipped(named_tensors(module), skip, source);
  const NamedTensors own = without(named_tensors(module), skip);
  std::map<std::string, std::size_t> given;
  TensorForms forms;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    if (is_skipped(name, skip)) continue;
    given[name] = i;
    forms[name] = {tensor.scalar_type(), tensor.sizes().vec()};
  }
  const NamedTensors absent = check_tensors(own, std::move(forms), source);
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : absent) at::Tensor(tensor).zero_();
  Plan plan;
  for (const auto& [name, tensor] : own) {
    if (const auto found = given.find(name); found != given.end()) plan.emplace_back(tensor, found->second);
  }
  return plan;
}

/// Plans to load the tensors that match, and lists all tensors in `report`.
Plan plan_matching(torch::nn::Module& module, const NamedTensors& tensors, const std::string& source,
                   LoadReport& report) {
  Plan plan;
  std::map<std::string, std::size_t> given;
  for (std::size_t i = 0; i < tensors.size(); ++i) given[tensors[i].first] = i;
  for (const auto& [name, tensor] : named_tensors(module)) {
    const auto found = given.extract(name);
    if (found.empty()) {
      report.missing.push_back(name);
      continue;
    }
    const at::Tensor& from = tensors[found.mapped()].second;
    if (from.sizes() != tensor.sizes() || from.scalar_type() != tensor.scalar_type()) {
      report.other_form.push_back(name);
      continue;
    }
    plan.emplace_back(tensor, found.mapped());
    report.loaded.push_back(name);
  }
  for (const auto& [name, number] : given) report.extra.push_back(name);
  if (report.loaded.empty()) throw DataError(source + " is of another model: no tensor fits; " + to_string(report));
  return plan;
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

Metadata read_metadata(const std::filesystem::path& path) {
  if (is_saved_checkpoint(path)) {
    return metadata_of(SavedCheckpoint(path).manifest().about.value("extensions", json()), kModelMetadata);
  }
  const std::filesystem::path file = weights_file(path);
  if (is_index(file)) return metadata_of(parse_json(read_file(file), file.string()), "metadata");
  return metadata_of(read_safetensors_header(file), "__metadata__");
}

/// Plans to load the averages of a checkpoint, which replace the weights. A parameter with several names may have its
/// average under any of them.
void add_averages(Plan& plan, const WeightsReader& reader, torch::nn::Module& module,
                  const std::vector<std::string>& skip) {
  std::map<std::string, std::size_t> all;
  for (std::size_t i = 0; i < reader.averages.size(); ++i) all.emplace(reader.averages[i].first, i);
  for (const auto& [name, tensor] : without(named_tensors(module), skip)) {
    const auto found = all.find(name);
    if (found == all.end() || reader.averages[found->second].second.sizes() != tensor.sizes()) continue;
    plan.emplace_back(tensor, reader.tensors.size() + found->second);
  }
}

/// Collective: loads the tensors of a plan, which rank 0 has made, one by one. Rank 0 sends the whole tensor to ranks
/// that have a piece of a sharded parameter. All other tensors of the module are then rank 0's, too.
void load_planned(const Plan& plan, const WeightsReader& reader, torch::nn::Module& module, Communicator& comm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sharded;
  for (const auto& [name, tensor] : named_tensors(module)) {
    if (is_in_pieces(tensor)) sharded.push_back(tensor);
  }
  RootWork root(comm);
  json numbers = json::array();  // for each step of the plan: the tensor in `sharded`, or its size for any other tensor
  for (const auto& [target, number] : plan) {
    const auto is_target = [&, &own = target](const at::Tensor& each) { return each.is_same(own); };
    numbers.push_back(std::ranges::find_if(sharded, is_target) - sharded.begin());
  }
  numbers = comm.bcast_obj(numbers);
  for (std::size_t step = 0; step < numbers.size(); ++step) {
    const auto i = numbers[step].get<std::size_t>();
    at::Tensor whole;
    if (i < sharded.size()) whole = at::empty(sharded[i].sizes(), sharded[i].options());
    root.attempt([&] {
      at::Tensor target = whole.defined() ? whole : plan[step].first.detach();
      target.copy_(reader.read(plan[step].second));
    });
    if (!whole.defined()) continue;
    comm.bcast(whole);
    load_piece(sharded[i], whole);
  }
  root.agree<DataError>(true);
  comm.broadcast_data(module);
}

/// Collective: rank 0 opens the weights in `path`, and plan_of(tensors, source) says which of them to load. All ranks
/// get rank 0's weights.
template <class PlanOf>
void load_on_root(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm,
                  const std::vector<std::string>& skip, const FileLayout& layout, const PlanOf& plan_of) {
  WeightsReader reader;
  Plan plan;
  const auto open = [&] {
    reader = open_weights(path, kWeightAverage);
    arrange(reader, layout);
    plan = plan_of(adapt_weights(reader.tensors, module, path.string()), path.string());
    add_averages(plan, reader, module, skip);
  };
  on_root<DataError>(comm, open, true);
  load_planned(plan, reader, module, comm);
}

void append_names(std::string& text, const char* what, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? std::string("; ") + what + ": " : ", ") + names[i];
}

}  // namespace

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
  // All tensors are compared before the first copy. Therefore the module is unchanged after an error.
  const Plan plan = plan_all(module, tensors, source, skip);
  const at::NoGradGuard no_grad;
  for (const auto& [tensor, number] : plan) at::Tensor(tensor).copy_(tensors[number].second);
}

void load_model(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm,
                const std::vector<std::string>& skip, const FileLayout& layout) {
  load_on_root(path, module, comm, skip, layout, [&](const NamedTensors& tensors, const std::string& source) {
    return plan_all(module, tensors, source, skip);
  });
}

Metadata load_metadata(const std::filesystem::path& path, Communicator& comm) {
  Metadata metadata;
  on_root<DataError>(
      comm, [&] { metadata = read_metadata(path); }, true);
  return comm.bcast_obj(json(metadata)).get<Metadata>();
}

LoadReport load_matching(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm,
                         const FileLayout& layout) {
  LoadReport report;
  load_on_root(path, module, comm, {}, layout, [&](const NamedTensors& tensors, const std::string& source) {
    return plan_matching(module, tensors, source, report);
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
