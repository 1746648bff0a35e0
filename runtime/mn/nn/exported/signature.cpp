#include <mn/nn/exported/signature.hpp>

#include <algorithm>

#include <mn/nn/exported/output_names.hpp>

namespace mn::exported {
namespace {

using nlohmann::json;

/// `size` is {"as_int": 3}, or {"as_expr": {"expr_str": "Symbol('s95', …)", …}} with bounds in `constraints`.
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

/// The shape of an output, −1 for sizes that vary; no value if the output is not a tensor of the graph.
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

/// Names outputs by `names` if there is a name for each, else by position.
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

/// The name in the graph of the parameter or argument that an output changes.
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

Results read_results(const json& module, const std::vector<Input>& inputs, const Rename& rename) {
  Results results;
  for (const json& spec : module.at("signature").at("output_specs")) {
    const std::string kind = form_of(spec);
    const json& about = spec.at(kind);
    const auto value = [&] { return rename(about.at("arg").at("name")); };
    if (kind == "user_output") {
      results.values.push_back(parse_argument(about.at("arg"), rename));
      results.outputs.push_back({.sizes = sizes_of(about.at("arg"), module.at("graph").at("tensor_values"))});
    } else if (kind == "buffer_mutation") {
      results.values.push_back({"as_tensor", ValueName{value()}});
      results.outputs.push_back({.buffer = about.at("buffer_name")});
    } else if (kind == "parameter_mutation" || kind == "user_input_mutation") {
      results.mutations.push_back({value(), changed_by(kind, about, inputs)});
    } else {
      throw UnknownForm("an output of the unknown kind " + json_quoted(kind));
    }
  }
  name_outputs(results.outputs, output_names(module));
  return results;
}

}  // namespace mn::exported
