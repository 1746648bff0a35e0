#include <mn/nn/exported/write_back.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <mn/core/json.hpp>

namespace mn::exported {
namespace {

using Names = std::map<std::string, std::string>;

void rename(Argument& argument, const Names& names) {
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

}  // namespace

void write_back(Graph& graph, const std::vector<Mutation>& mutations) {
  if (mutations.empty()) return;
  Names names;
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
  // The new value is not the result of an operator, but an argument, say.
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    if (!written[i]) nodes.push_back(copy_of(mutations[i]));
  }
  for (Argument& output : graph.outputs) rename(output, names);
  graph.nodes = std::move(nodes);
}

}  // namespace mn::exported
