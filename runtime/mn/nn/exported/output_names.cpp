// Reads the text of torch.utils._pytree.treespec_dumps: [1, {"type", "context", "children_spec": […]}]. `context` is
// JSON in a string: the list of keys of a dict, the list of fields of a registered class, the list of fields and the
// list of None fields of a dataclass. The context of a namedtuple is the name of its type, without quotes. The type of
// a leaf is null.

#include <mn/nn/exported/output_names.hpp>

#include <algorithm>
#include <string>

#include <mn/core/json.hpp>
#include <mn/nn/exported/argument.hpp>

namespace mn::exported {
namespace {

using nlohmann::json;

json parse_form(const std::string& text) {
  try {
    return parse_json(text, "a form of them");
  } catch (const DataError& error) {
    throw UnknownForm(error.what());
  }
}

bool are_keys(const json& list, std::size_t count) {
  return list.is_array() && list.size() == count &&
         std::ranges::all_of(list, [](const json& key) { return key.is_string(); });
}

/// The parsed context of a container; a string if the class has a text form of its own.
json context_of(const json& spec, const json& namedtuples) {
  const json& context = spec.at("context");
  if (!context.is_string()) return context;
  const auto text = context.get<std::string>();
  if (spec.at("type") == "collections.namedtuple" && namedtuples.contains(text)) {
    return namedtuples.at(text).at("field_names");
  }
  try {
    return parse_json(text, "");
  } catch (const DataError&) {
    return context;
  }
}

/// The names of a container's items; their positions if the container has no names.
std::vector<std::string> keys_of(const json& spec, const json& namedtuples) {
  const std::size_t count = spec.at("children_spec").size();
  json context = context_of(spec, namedtuples);
  if (context.is_object() && context.contains("dict_context")) context = context.at("dict_context");
  if (are_keys(context, count)) return context.get<std::vector<std::string>>();
  if (context.is_array() && !context.empty() && are_keys(context.at(0), count)) {
    return context.at(0).get<std::vector<std::string>>();
  }
  std::vector<std::string> positions;
  for (std::size_t i = 0; i < count; ++i) positions.push_back(std::to_string(i));
  return positions;
}

void append_names(std::vector<std::string>& names, const json& spec, const std::string& path, const json& namedtuples) {
  if (spec.at("type").is_null()) {
    names.push_back(path.empty() ? "output" : path);
    return;
  }
  const std::vector<std::string> keys = keys_of(spec, namedtuples);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    append_names(names, spec.at("children_spec").at(i), path.empty() ? keys[i] : path + "." + keys[i], namedtuples);
  }
}

}  // namespace

std::vector<std::string> output_names(const json& module) {
  std::vector<std::string> names;
  if (!module.contains("module_call_graph")) return names;
  for (const json& call : module.at("module_call_graph")) {
    if (call.at("fqn") != "" || call.at("signature").is_null()) continue;
    const auto text = call.at("signature").at("out_spec").get<std::string>();
    append_names(names, parse_form(text).at(1), "", module.value("treespec_namedtuple_fields", json::object()));
    break;
  }
  return names;
}

}  // namespace mn::exported
