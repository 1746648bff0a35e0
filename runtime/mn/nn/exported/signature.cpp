#include <mn/nn/exported/signature.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <mn/core/error.hpp>

namespace mn::exported {
namespace {

using nlohmann::json;

/// `size` is {"as_int": 3}, or {"as_expr": {"expr_str": "Symbol('s95', …)", …}}; `constraints` has the symbols' bounds.
Extent parse_extent(const json& size, const json& constraints) {
  if (size.contains("as_int"))
    return {whole_number<std::int64_t>(size.at("as_int")), whole_number<std::int64_t>(size.at("as_int"))};
  const auto text = size.at("as_expr").at("expr_str").get<std::string>();
  const std::string begin = "Symbol('";
  if (!text.starts_with(begin) || text.find(')') + 1 != text.size()) return {};
  const auto known = constraints.find(text.substr(begin.size(), text.find('\'', begin.size()) - begin.size()));
  Extent extent;
  if (known != constraints.end() && !known->at("max_val").is_null())
    extent.most = whole_number<std::int64_t>(known->at("max_val"));
  return extent;
}

Input read_input(const json& spec) {
  using Kind = Input::Kind;
  const std::string kind = form_of(spec);
  const json& about = spec.at(kind);
  if (kind == "constant_input") {
    const auto unchanged = [](const std::string& name) { return name; };
    return {Kind::kLiteral, about.at("name"), {}, true, parse_argument(about.at("value"), unchanged)};
  }
  const json& value = about.at("arg");
  if (kind == "user_input" && form_of(value) == "as_tensor") return {Kind::kUser, value.at("as_tensor").at("name")};
  if (kind == "parameter") return {Kind::kParameter, value.at("name"), about.at("parameter_name")};
  if (kind == "buffer") return {Kind::kBuffer, value.at("name"), about.at("buffer_name"), about.at("persistent")};
  if (kind == "tensor_constant") return {Kind::kConstant, value.at("name"), about.at("tensor_constant_name")};
  throw UnknownForm("an input of the unknown kind " + json_quoted(kind == "user_input" ? form_of(value) : kind));
}

/// The shape of an output, with −1 for each size that varies; no value if the output is not a tensor of the graph.
std::optional<std::vector<std::int64_t>> sizes_of(const json& argument, const json& tensors) {
  if (form_of(argument) != "as_tensor") return std::nullopt;
  const auto found = tensors.find(argument.at("as_tensor").at("name").get<std::string>());
  if (found == tensors.end()) return std::nullopt;
  std::vector<std::int64_t> sizes;
  for (const json& size : found->at("sizes")) {
    sizes.push_back(size.contains("as_int") ? whole_number<std::int64_t>(size.at("as_int")) : -1);
  }
  return sizes;
}

/// Names the outputs: uses `names` if it has a name for each output, otherwise the outputs' positions.
void name_outputs(std::vector<Output>& outputs, const std::vector<std::string>& names) {
  const auto is_returned = [](const Output& output) { return output.buffer.empty(); };
  const bool has_names = std::ssize(names) == std::ranges::count_if(outputs, is_returned);
  std::size_t next = 0;
  for (Output& output : outputs) {
    if (!is_returned(output)) continue;
    output.name = has_names ? names[next] : std::to_string(next);
    ++next;
  }
}

/// The name, in the graph, of the parameter or argument that an output changes.
std::string changed_by(const std::string& kind, const json& about, const std::vector<Input>& inputs) {
  const bool is_parameter = kind == "parameter_mutation";
  const std::string name = about.at(is_parameter ? "parameter_name" : "user_input_name");
  for (const Input& input : inputs) {
    if (is_parameter ? input.kind == Input::Kind::kParameter && input.target == name
                     : input.kind == Input::Kind::kUser && input.value == name) {
      return input.value;
    }
  }
  throw UnknownForm("a change of " + json_quoted(name) + ", which is not an input");
}

using nlohmann::json;

// Parses a text of torch.utils._pytree.treespec_dumps: [1, {"type", "context", "children_spec": […]}]. A leaf's type is
// null. `context` is JSON in a string: a dict's keys, the fields of a registered class, or the fields and the None
// fields of a dataclass. The context of a namedtuple is the name of its type, without quotes.

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

/// The parsed context of a container. It stays a string if the container's class writes its context in its own form.
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

/// The names of a container's items, or their positions if the items have no names.
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

/// The names of the tensors that the model returns, in order; empty if the file has no names. A name consists of the
/// keys and fields that lead to the tensor in the result of Python's forward(), or is the tensor's position.
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

/// A value that becomes the new value of a parameter, or of an argument of forward(), in a graph without operators that
/// work in place.
struct Mutation {
  std::string value;
  std::string input;  ///< name of the parameter's or argument's value in the graph
};

using NewNames = std::map<std::string, std::string>;

void rename(Argument& argument, const NewNames& names) {
  if (auto* value = std::get_if<ValueName>(&argument.value)) {
    if (const auto found = names.find(value->name); found != names.end()) value->name = found->second;
  } else if (auto* items = std::get_if<std::vector<Argument>>(&argument.value)) {
    for (Argument& item : *items) rename(item, names);
  }
}

Argument value_called(const std::string& name) { return {"as_tensor", ValueName{name}}; }

Node copy_of(const Mutation& mutation) {
  const std::string target = "torch.ops.aten.copy_.default";
  Node node{.target = target, .what = "the change of " + json_quoted(mutation.input), .grad = false, .graphs = {}};
  node.inputs = {{"self", value_called(mutation.input)}, {"src", value_called(mutation.value)}};
  node.outputs = {value_called(mutation.value + "/written")};
  return node;
}

bool makes(const Node& node, const std::string& value) {
  std::vector<std::string> made;
  for (const Argument& output : node.outputs) append_values(made, output);
  return std::ranges::find(made, value) != made.end();
}

void write_back(Graph& graph, const std::vector<Mutation>& mutations) {
  if (mutations.empty()) return;
  NewNames names;
  std::vector<Node> nodes;
  std::vector<bool> written(mutations.size());
  for (Node& node : graph.nodes) {
    for (NamedArgument& input : node.inputs) rename(input.value, names);
    nodes.push_back(std::move(node));
    for (std::size_t i = 0; i < mutations.size(); ++i) {
      if (!makes(nodes.back(), mutations[i].value)) continue;
      nodes.push_back(copy_of(mutations[i]));
      names.emplace(mutations[i].value, mutations[i].input);
      written[i] = true;
    }
  }
  // The copy of a value that no node returns, for instance of an argument of forward(), comes at the end.
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    if (!written[i]) nodes.push_back(copy_of(mutations[i]));
  }
  for (Argument& output : graph.outputs) rename(output, names);
  graph.nodes = std::move(nodes);
}

}  // namespace

std::vector<Input> read_inputs(const json& document) {
  const json& module = document.at("graph_module");
  std::vector<Input> inputs;
  for (const json& spec : module.at("signature").at("input_specs")) {
    Input& input = inputs.emplace_back(read_input(spec));
    if (input.kind != Input::Kind::kUser) continue;
    const json& meta = module.at("graph").at("tensor_values").at(input.value);
    input.dtype = whole_number<std::int64_t>(meta.at("dtype"));
    for (const json& size : meta.at("sizes")) {
      input.extents.push_back(parse_extent(size, document.at("range_constraints")));
    }
  }
  return inputs;
}

void read_outputs(const json& module, const Rename& rename, Program& program) {
  std::vector<Mutation> mutations;
  for (const json& spec : module.at("signature").at("output_specs")) {
    const std::string kind = form_of(spec);
    const json& about = spec.at(kind);
    const auto value = [&] { return rename(about.at("arg").at("name")); };
    if (kind == "user_output") {
      program.graph.outputs.push_back(parse_argument(about.at("arg"), rename));
      program.outputs.push_back({.sizes = sizes_of(about.at("arg"), module.at("graph").at("tensor_values"))});
    } else if (kind == "buffer_mutation") {
      program.graph.outputs.push_back({"as_tensor", ValueName{value()}});
      program.outputs.push_back({.buffer = about.at("buffer_name")});
    } else if (kind == "parameter_mutation" || kind == "user_input_mutation") {
      mutations.push_back({value(), changed_by(kind, about, program.inputs)});
    } else {
      throw UnknownForm("an output of the unknown kind " + json_quoted(kind));
    }
  }
  name_outputs(program.outputs, output_names(module));
  write_back(program.graph, mutations);
}

}  // namespace mn::exported
