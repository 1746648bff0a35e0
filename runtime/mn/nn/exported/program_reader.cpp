// Reads the format of torch/export/pt2_archive and torch/_export/serde/schema.py (schema version 8).
//
// models/model.json holds the graph and its signature; data/weights and data/constants hold the tensors, each folder
// with a JSON file that maps tensors to records.
//
// A graph may call an inner graph. For torch.no_grad() and torch.autocast(enabled=False) the inner graph's nodes
// replace the call, and each of them notes that gradients or autocast are off:
// (1) inner inputs are renamed to the outer arguments, and outer results to the inner outputs;
// (2) all remaining inner values get the inner graph's name as a prefix, because both graphs may use the same name.
// The inner graphs of all further operators (torch.cond, …) become Node::graphs, and their values are not renamed.

#include <mn/nn/exported/program.hpp>

#include <type_traits>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/nn/exported/archive.hpp>
#include <mn/nn/exported/signature.hpp>

namespace mn::exported {
namespace {

using nlohmann::json;

constexpr int kSchemaVersion = 8;
constexpr const char* kGradMode = "torch.ops.higher_order.wrap_with_set_grad_enabled";
constexpr const char* kAutocastMode = "torch.ops.higher_order.wrap_with_autocast";

std::string unchanged(const std::string& name) { return name; }

/// The reader's state while it reads the nodes of one graph.
struct Scope {
  std::string prefix = {};
  std::map<std::string, std::string> renamed = {};
  bool grad = true;
  bool autocast = true;

  [[nodiscard]] std::string name_of(const std::string& name) const {
    const auto found = renamed.find(name);
    return found != renamed.end() ? found->second : prefix + name;
  }
  [[nodiscard]] Argument parse(const json& document) const {
    return parse_argument(document, [this](const std::string& name) { return name_of(name); });
  }
};

/// Returns the names of the values in an argument that holds only values.
std::vector<std::string> values_of(const Argument& argument) {
  std::vector<std::string> names;
  append_values(names, argument);
  if (names.empty())
    throw UnknownForm("a graph within it with an argument that is not a value (" + argument.form + ")");
  return names;
}

std::vector<std::int64_t> parse_numbers(const json& list) {
  std::vector<std::int64_t> numbers;
  for (const json& number : list) numbers.push_back(whole_number<std::int64_t>(number.at("as_int")));
  return numbers;
}

StoredTensor parse_stored_tensor(const json& entry, const std::string& folder) {
  if (entry.at("use_pickle").get<bool>()) throw UnknownForm("a pickle for a tensor, which is never read");
  const json& meta = entry.at("tensor_meta");
  return {folder + entry.at("path_name").get<std::string>(),
          whole_number<std::int64_t>(meta.at("dtype")),
          parse_numbers(meta.at("sizes")),
          parse_numbers(meta.at("strides")),
          whole_number<std::int64_t>(meta.at("storage_offset").at("as_int")),
          meta.at("requires_grad").get<bool>()};
}

/// True if, according to the file, a batch norm's input has the shape [samples, channels, 1, …].
bool has_one_value(const json& node, const json& graph) {
  const json& input = node.at("inputs").at(0).at("arg");
  if (form_of(input) != "as_tensor" || !graph.contains("tensor_values")) return false;
  const auto found = graph.at("tensor_values").find(input.at("as_tensor").at("name").get<std::string>());
  if (found == graph.at("tensor_values").end()) return false;
  const json& sizes = found->at("sizes");
  for (std::size_t i = 2; i < sizes.size(); ++i) {
    if (sizes[i].value("as_int", std::int64_t{0}) != 1) return false;
  }
  return sizes.size() > 1;
}

/// For an assignment `self.buffer = value`, torch.export copies the value to the buffer at the end of the graph. But an
/// assignment does not write to the old tensor, which autograd may keep. Therefore these copies become outputs that
/// replace the buffer. The copies of the model's own code are not called copy__default, and remain.
void take_assignments(Program& program) {
  std::vector<Node>& nodes = program.graph.nodes;
  while (!nodes.empty() && nodes.back().what.starts_with("node \"copy__default")) {
    const Argument* buffer = find_input(nodes.back(), "self");
    const Argument* value = find_input(nodes.back(), "src");
    const auto* name = buffer != nullptr ? std::get_if<ValueName>(&buffer->value) : nullptr;
    if (name == nullptr || value == nullptr) return;
    const auto input = std::ranges::find(program.inputs, name->name, &Input::value);
    if (input == program.inputs.end() || input->kind != Input::Kind::kBuffer) return;
    program.outputs.push_back({.buffer = input->target});
    program.graph.outputs.push_back(*value);
    nodes.pop_back();
  }
}

class ProgramReader {
 public:
  ProgramReader(const Archive& archive, Part part) : archive_(archive), is_evaluation_(part == Part::kEvaluation) {}

  Program read() {
    if (archive_.record("byteorder") != "little") fail("holds numbers whose bytes are not in little-endian order");
    const json document = load(is_evaluation_ ? "models/evaluation.json" : "models/model.json");
    within("its version",
           [&] { check_version(whole_number<std::int64_t>(document.at("schema_version").at("major"))); });
    within("its inputs", [&] { program_.inputs = read_inputs(document); });
    for (const Input& input : program_.inputs) program_.graph.inputs.push_back(input.value);
    Scope scope;
    const json& graph = within("its graph", [&]() -> const json& { return document["graph_module"].at("graph"); });
    read_nodes(graph, scope, program_.graph.nodes);
    within("its outputs", [&] {
      read_outputs(
          document["graph_module"], [&](const std::string& name) { return scope.name_of(name); }, program_);
    });
    program_.weights = read_tensors("data/weights/", "model_weights_config.json");
    program_.constants =
        read_tensors(is_evaluation_ ? "data/evaluation/" : "data/constants/", "model_constants_config.json");
    take_assignments(program_);
    return std::move(program_);
  }

 private:
  /// If `read` fails, the error message names the part `what`.
  template <class Read>
  std::invoke_result_t<Read> within(const std::string& what, Read read) const {
    const std::string where = archive_.source() + ": " + what;
    return read_json(where, [&]() -> std::invoke_result_t<Read> {
      try {
        return read();
      } catch (const UnknownForm& unknown) {
        throw DataError(where + " has " + unknown.what());
      }
    });
  }

  [[nodiscard]] json load(const std::string& name) const {
    return parse_json(archive_.record(name), archive_.source() + ": " + name);
  }

  void check_version(std::int64_t major) const {
    if (major == kSchemaVersion) return;
    fail("has a graph of schema version " + std::to_string(major) + ", but only version " +
         std::to_string(kSchemaVersion) + " is known: export the model with another torch");
  }

  void read_nodes(const json& graph, Scope& scope, std::vector<Node>& nodes) const {
    const json& list = within("its graph", [&]() -> const json& { return graph.at("nodes"); });
    for (const json& node : list) {
      const auto target = within("a node", [&] { return node.at("target").get<std::string>(); });
      if (target == kGradMode || target == kAutocastMode) {
        inline_graph(node, target, scope, nodes);
      } else {
        nodes.push_back(read_node(node, target, scope));
        if (target.find("batch_norm") == std::string::npos) continue;
        within(nodes.back().what, [&] { nodes.back().has_one_value_a_sample = has_one_value(node, graph); });
      }
    }
  }

  [[nodiscard]] Node read_node(const json& node, const std::string& target, const Scope& scope) const {
    const std::string what = describe(node, target);
    return within(what, [&] {
      Node result{target, what, {}, {}, scope.grad, scope.autocast, {}};
      for (const json& input : node.at("inputs")) {
        const json& argument = input.at("arg");
        if (form_of(argument) == "as_graph") {
          result.graphs.push_back(read_graph(argument.at("as_graph").at("graph"), scope));
        } else {
          result.inputs.push_back({input.at("name").get<std::string>(), scope.parse(argument)});
        }
      }
      for (const json& output : node.at("outputs")) result.outputs.push_back(scope.parse(output));
      return result;
    });
  }

  [[nodiscard]] Graph read_graph(const json& graph, const Scope& outer) const {
    Graph result;
    Scope scope{.grad = outer.grad, .autocast = outer.autocast};
    for (const json& input : graph.at("inputs")) result.inputs.push_back(values_of(scope.parse(input)).front());
    read_nodes(graph, scope, result.nodes);
    for (const json& output : graph.at("outputs")) result.outputs.push_back(scope.parse(output));
    return result;
  }

  /// Adds to `nodes` the nodes of the graph that `node` calls.
  void inline_graph(const json& node, const std::string& target, Scope& scope, std::vector<Node>& nodes) const {
    const std::string what = describe(node, target);
    Scope inner;
    const json& graph = within(what, [&]() -> const json& { return enter_graph(node, target, scope, inner); });
    read_nodes(graph, inner, nodes);
    within(what, [&] {
      std::vector<std::string> results, outputs;
      for (const json& result : node.at("outputs")) append_values(results, parse_argument(result, unchanged));
      for (const json& output : graph.at("outputs")) append_values(outputs, inner.parse(output));
      if (results.size() != outputs.size()) throw UnknownForm("not as many results as the graph within it");
      for (std::size_t i = 0; i < results.size(); ++i) scope.renamed[results[i]] = outputs[i];
    });
  }

  /// Returns the graph that `node` calls, and sets `inner` to its scope. The node's arguments are the mode (autocast's
  /// third argument), the graph, and the graph's inputs.
  static const json& enter_graph(const json& node, const std::string& target, const Scope& scope, Scope& inner) {
    const bool is_grad = target == kGradMode;
    const json& arguments = node.at("inputs");
    const bool enabled = arguments.at(is_grad ? 0 : 2).at("arg").at("as_bool").get<bool>();
    if (!is_grad && enabled) throw UnknownForm("torch.autocast turned on, which is --precision's to do");
    std::size_t next = is_grad ? 1 : 4;
    const json& callee = arguments.at(next++).at("arg").at("as_graph");
    inner = {scope.prefix + callee.at("name").get<std::string>() + "/", {}, scope.grad, scope.autocast};
    (is_grad ? inner.grad : inner.autocast) = enabled;
    for (const json& input : callee.at("graph").at("inputs")) {
      const std::string name = values_of(parse_argument(input, unchanged)).front();
      inner.renamed[name] = values_of(scope.parse(arguments.at(next++).at("arg"))).front();
    }
    return callee.at("graph");
  }

  [[nodiscard]] static std::string describe(const json& node, const std::string& target) {
    // Files of torch 2.9 have names of results only.
    const nlohmann::json::json_pointer own("/name"), of_result("/outputs/0/as_tensor/name");
    const auto& place = node.contains(own) && node[own].is_string() ? own : of_result;
    const std::string name = node.contains(place) && node[place].is_string() ? node[place] : "";
    return "node " + json_quoted(name) + " (" + json_quoted(target) + ")";
  }

  [[nodiscard]] std::map<std::string, StoredTensor> read_tensors(const std::string& folder, const std::string& name) {
    const json document = load(folder + name);
    std::map<std::string, StoredTensor> tensors;
    within(folder + name, [&] {
      for (const auto& [key, entry] : document.at("config").items()) {
        tensors.emplace(key, parse_stored_tensor(entry, folder));
      }
    });
    return tensors;
  }

  [[noreturn]] void fail(const std::string& how) const { throw DataError(archive_.source() + " " + how); }

  const Archive& archive_;
  const bool is_evaluation_;
  Program program_;
};

}  // namespace

const Argument* find_input(const Node& node, const std::string& name) {
  const auto found = std::ranges::find(node.inputs, name, &NamedArgument::name);
  return found == node.inputs.end() ? nullptr : &found->value;
}

Program parse_program(const Archive& archive, Part part) { return ProgramReader(archive, part).read(); }

}  // namespace mn::exported
