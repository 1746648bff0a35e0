#include <mn/checkpoint/adapt_weights.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr std::string_view kPrefix = "module.";
constexpr std::string_view kWrappers[] = {"_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module."};

/// Removes a wrapper's `part` from `name`, wherever the name of a module may begin.
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

/// Names without the parts that wrappers of modules add, the likeliest first: a model may itself have a layer "module".
std::vector<std::string> plain_names(std::string name) {
  for (const std::string_view part : kWrappers) name = without_part(std::move(name), part);
  std::vector<std::string> names = {name};
  while (name.starts_with(kPrefix)) names.push_back(name.erase(0, kPrefix.size()));
  names.push_back(without_part(name, kPrefix));  // a wrapped layer
  return names;
}

}  // namespace

NamedTensors adapt_weights(NamedTensors tensors, const torch::nn::Module& module, const std::string& source) {
  const NamedTensors list = named_tensors(module);
  const std::map<std::string, at::Tensor> own(list.begin(), list.end());
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) names.insert(name);
  std::size_t renamed = 0, cast = 0;
  std::string from, to;  // an example of dtypes
  for (auto& [name, tensor] : tensors) {
    const std::vector<std::string> plain = plain_names(name);
    const auto fitting = std::ranges::find_if(plain, [&](const std::string& each) { return own.contains(each); });
    if (!own.contains(name) && fitting != plain.end() && names.insert(*fitting).second) {
      name = *fitting;
      ++renamed;
    }
    const auto found = own.find(name);
    if (found == own.end() || found->second.scalar_type() == tensor.scalar_type()) continue;
    if (!found->second.is_floating_point() || !tensor.is_floating_point()) continue;
    from = toString(tensor.scalar_type());
    to = toString(found->second.scalar_type());
    tensor = tensor.to(found->second.scalar_type());
    ++cast;
  }
  std::string text;
  if (cast > 0) text = ": " + std::to_string(cast) + " tensors cast, " + from + " to " + to;
  if (renamed > 0)
    text += (cast > 0 ? "; " : ": ") + std::to_string(renamed) + " names without \"module.\" or \"_orig_mod.\"";
  if (!text.empty()) log_info(source + text);
  return tensors;
}

}  // namespace mn
