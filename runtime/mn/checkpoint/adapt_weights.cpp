#include <mn/checkpoint/adapt_weights.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/core/log.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

constexpr std::string_view kPrefix = "module.";
constexpr std::string_view kWrappers[] = {"_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module."};

/// Wrappers such as torch.compile add a word to the names of tensors. Removes the word `part` at the beginning of
/// `name` and after each dot.
std::string without_part(std::string name, std::string_view part) {
  for (std::size_t at = name.find(part); at != std::string::npos; at = name.find(part, at)) {
    if (at == 0 || name[at - 1] == '.') {
      name.erase(at, part.size());
    } else {
      ++at;
    }
  }
  return name;
}

/// Returns the names that the tensor may have had before a wrapper added words. The likeliest name comes first. Several
/// names are possible, because a model may itself have a layer called "module".
std::vector<std::string> plain_names(std::string name) {
  for (const std::string_view part : kWrappers) name = without_part(std::move(name), part);
  std::vector<std::string> names = {name};
  while (name.starts_with(kPrefix)) names.push_back(name.erase(0, kPrefix.size()));
  names.push_back(without_part(name, kPrefix));  // for a model in which single layers were wrapped
  return names;
}

using Tensors = std::map<std::string, at::Tensor>;

/// Renames each tensor of the file whose name the module lacks. The new name is the first of plain_names_of(name) that
/// the module has and no other tensor of the file has. Returns the number of renamed tensors.
template <class PlainNames>
std::size_t rename(NamedTensors& tensors, const Tensors& own, std::set<std::string>& names,
                   const PlainNames& plain_names_of) {
  std::size_t renamed = 0;
  for (auto& [name, tensor] : tensors) {
    if (own.contains(name)) continue;
    const std::vector<std::string> plain = plain_names_of(name);
    const auto fitting = std::ranges::find_if(plain, [&](const std::string& each) { return own.contains(each); });
    if (fitting == plain.end() || !names.insert(*fitting).second) continue;
    name = *fitting;
    ++renamed;
  }
  return renamed;
}

/// Returns the prefix, such as "backbone.", that would give the most tensors of the file a name of the module. Returns
/// an empty string if more tensors fit without a prefix, or if two prefixes fit equally many.
std::string common_prefix(const std::set<std::string>& names, const Tensors& own) {
  std::map<std::string, std::size_t> found = {{"", 0}};
  for (const std::string& name : names) {
    if (own.contains(name)) ++found[""];
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      if (own.contains(name.substr(dot + 1))) ++found[name.substr(0, dot + 1)];
    }
  }
  const auto most = std::ranges::max_element(found, {}, [](const auto& each) { return each.second; });
  const auto ties = std::ranges::count(found, most->second, [](const auto& each) { return each.second; });
  return ties == 1 ? most->first : "";
}

/// Casts floating-point tensors to the dtypes of the module. Returns "N tensors cast, FROM to TO" for the log, or an
/// empty string if no tensor was cast.
std::string cast_floats(NamedTensors& tensors, const Tensors& own) {
  std::size_t cast = 0;
  std::string from, to;  // an example
  for (auto& [name, tensor] : tensors) {
    const auto found = own.find(name);
    if (found == own.end() || found->second.scalar_type() == tensor.scalar_type()) continue;
    if (!found->second.is_floating_point() || !tensor.is_floating_point()) continue;
    from = toString(tensor.scalar_type());
    to = toString(found->second.scalar_type());
    tensor = tensor.to(found->second.scalar_type());
    ++cast;
  }
  return cast == 0 ? "" : std::to_string(cast) + " tensors cast, " + from + " to " + to;
}

}  // namespace

NamedTensors adapt_weights(NamedTensors tensors, const torch::nn::Module& module, const std::string& source) {
  const NamedTensors list = named_tensors(module);
  const Tensors own(list.begin(), list.end());
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) names.insert(name);
  std::vector<std::string> changes;
  if (const std::size_t renamed = rename(tensors, own, names, plain_names); renamed > 0) {
    changes.push_back(std::to_string(renamed) + " names without \"module.\" or \"_orig_mod.\"");
  }
  const std::string prefix = common_prefix(names, own);
  const auto without_prefix = [&](const std::string& name) -> std::vector<std::string> {
    if (prefix.empty() || !name.starts_with(prefix)) return {};
    return {name.substr(prefix.size())};
  };
  if (const std::size_t renamed = rename(tensors, own, names, without_prefix); renamed > 0) {
    changes.push_back(std::to_string(renamed) + " names without \"" + prefix + "\"");
  }
  if (std::string cast = cast_floats(tensors, own); !cast.empty()) changes.push_back(std::move(cast));
  if (!changes.empty()) log_info(source + ": " + join(changes, "; "));
  return tensors;
}

}  // namespace mn
