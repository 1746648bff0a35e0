// The nodes are visited in order, with what is known so far of the values that they read.
//
// (1) Every switch of is_training_switch() is off.
// (2) A node is left out if it draws random numbers without a switch, if it writes to a parameter, buffer or constant,
//     or if it reads what a node that is left out has made or written. A value that becomes a buffer at the end of
//     forward(), as run_decompositions() has it, counts as made by a node that writes to it.
// (3) So all nodes that remain compute what they compute in both modes. An output that (2) takes away is an error.
// (4) Writes of kInBothModes are part of what the operator computes, whatever the mode.

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/core/enum_tag.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/nn/exported/evaluation_graph.hpp>
#include <mn/nn/exported/operators.hpp>
#include <mn/nn/exported/storages.hpp>
#include <mn/nn/exported/training_switches.hpp>

namespace mn::exported {
namespace {

/// (4): torch's modules call them in evaluation as in training.
constexpr std::string_view kInBothModes[] = {
    "torch.ops.aten.fused_moving_avg_obs_fake_quant.default",
    "torch.ops.aten._fused_moving_avg_obs_fq_helper.default",
    "torch.ops.aten.embedding_renorm_.default",
    "torch.ops.aten.embedding_renorm.default",
};

bool is_in_both_modes(const Node& node) {
  return std::ranges::find(kInBothModes, node.target) != std::end(kInBothModes);
}

/// Whether its value is there after forward(), too.
bool is_kept(const Input& input) {
  return input.kind == Input::Kind::kParameter || input.kind == Input::Kind::kBuffer ||
         input.kind == Input::Kind::kConstant;
}

bool is_random(const Node& node) {
  const auto found = find_operator(node.target);
  if (!found || !found->hasTag(at::Tag::nondeterministic_seeded)) return false;
  const auto& parameters = found->schema().arguments();
  return std::ranges::none_of(parameters, [&](const auto& each) { return is_training_switch(node, each.name()); });
}

void switch_off(Node& node) {
  for (NamedArgument& input : node.inputs) {
    if (is_training_switch(node, input.name)) input.value = evaluation_setting(input.name);
  }
}

/// Leaves nodes out of one graph.
class Derivation {
 public:
  /// `state`: by storage of an input, what messages call it; empty for those that a node may write to.
  Derivation(Graph& graph, Storages storages, std::vector<std::string> state)
      : graph_(graph), state_(std::move(state)), storages_(std::move(storages)) {}

  /// A value of that name becomes the buffer.
  void set_new_value(const std::string& value, const std::string& buffer) { new_values_[value] = buffer; }

  void run() {
    std::vector<Node> kept;
    for (Node& node : graph_.nodes) {
      switch_off(node);
      const std::string objection = objection_to(node);
      const std::vector<std::size_t> written = storages_.written_by(node);
      storages_.define_results(node);
      if (objection.empty()) {
        note_made(node);
        kept.push_back(std::move(node));
        continue;
      }
      for (const std::string& value : values_made(node)) left_out_[storages_.of(value)] = objection;
      for (const std::size_t storage : written) left_out_[storage] = objection;
    }
    graph_.nodes = std::move(kept);
  }

  /// Why a value is not what evaluation needs; empty if it is.
  [[nodiscard]] std::string objection_to(const std::string& value) const {
    if (const auto found = stale_.find(value); found != stale_.end()) return found->second;
    const auto found = left_out_.find(storages_.of(value));
    return found == left_out_.end() ? "" : found->second;
  }

 private:
  [[nodiscard]] std::string objection_to(Node& node) {
    for (const std::string& value : values_read(node)) {
      if (std::string objection = objection_to(value); !objection.empty()) return objection;
    }
    if (is_random(node)) return node.what + " has random numbers that can't be turned off for evaluation";
    for (const std::size_t storage : storages_.written_by(node)) {
      if (storage >= state_.size() || state_[storage].empty() || is_meant(node)) continue;
      return node.what + " changes " + state_[storage] +
             ", which an output depends on, and the graph does not say whether evaluation changes it, too";
    }
    return objection_within(node);
  }

  /// Graphs within the graph may write to nothing outside.
  [[nodiscard]] static std::string objection_within(Node& node) {
    for (Graph& graph : node.graphs) {
      const std::vector<std::string> around(graph.inputs.size(), "a value of the graph around it");
      Derivation inner(graph, Storages(graph.inputs), around);
      inner.run();
      for (const Argument& output : graph.outputs) {
        std::vector<std::string> values;
        append_values(values, output);
        for (const std::string& value : values) {
          if (std::string objection = inner.objection_to(value); !objection.empty()) return objection;
        }
      }
    }
    return "";
  }

  /// Whether the node, or the one that made what it copies, is of kInBothModes.
  [[nodiscard]] bool is_meant(const Node& node) const {
    const auto values = values_read(node);
    return is_in_both_modes(node) ||
           std::ranges::any_of(values, [&](const std::string& value) { return meant_.contains(value); });
  }

  void note_made(const Node& node) {
    for (const std::string& value : values_made(node)) {
      if (is_in_both_modes(node)) meant_.insert(value);
      const auto found = new_values_.find(value);
      if (found == new_values_.end()) continue;
      stale_[value] = node.what + " makes the new value of " + found->second +
                      ", which an output depends on, and the graph does not say whether evaluation changes it, too";
    }
  }

  Graph& graph_;
  std::vector<std::string> state_;
  Storages storages_;
  std::map<std::string, std::string> new_values_;
  std::map<std::string, std::string> stale_;     // by value: (2), why nothing that reads it is kept
  std::map<std::size_t, std::string> left_out_;  // by storage: likewise
  std::set<std::string> meant_;                  // values that kInBothModes has made
};

std::string name_of(const Input& input) {
  return (input.kind == Input::Kind::kParameter ? "the parameter " : "the buffer ") + json_quoted(input.target);
}

/// How many switches are set to what.
struct SwitchCount {
  int training = 0;
  int evaluation = 0;  // without frozen batch norms
};

using Names = std::set<std::string>;

/// Those inputs of a graph within the graph that stand for `names`. It gets the node's last values.
Names names_within(const Graph& inner, const Node& node, const Names& names) {
  std::vector<Argument> given;
  for (const NamedArgument& input : node.inputs) {
    const auto* list = std::get_if<std::vector<Argument>>(&input.value.value);
    list != nullptr ? void(given.insert(given.end(), list->begin(), list->end())) : given.push_back(input.value);
  }
  Names within;
  for (std::size_t i = 0; i < std::min(inner.inputs.size(), given.size()); ++i) {
    const auto* value = std::get_if<ValueName>(&given[given.size() - 1 - i].value);
    if (value != nullptr && names.contains(value->name)) within.insert(inner.inputs[inner.inputs.size() - 1 - i]);
  }
  return within;
}

SwitchCount count_switches(const Graph& graph, const Names& frozen) {
  SwitchCount count;
  for (const Node& node : graph.nodes) {
    for (const Graph& inner : node.graphs) {
      const SwitchCount within = count_switches(inner, names_within(inner, node, frozen));
      count.training += within.training;
      count.evaluation += within.evaluation;
    }
    const Argument* weight = find_input(node, "weight");
    const auto* name = weight != nullptr ? std::get_if<ValueName>(&weight->value) : nullptr;
    const bool is_frozen = name != nullptr && frozen.contains(name->name);
    for (const NamedArgument& input : node.inputs) {
      const auto setting = is_training_switch(node, input.name) ? setting_of(input.value) : std::nullopt;
      if (setting && *setting) ++count.training;
      if (setting && !*setting && !is_frozen) ++count.evaluation;
    }
  }
  return count;
}

}  // namespace

Program derive_evaluation(Program program, const std::string& source) {
  std::vector<std::string> state;
  for (const Input& input : program.inputs) state.push_back(is_kept(input) ? name_of(input) : "");
  Derivation derivation(program.graph, Storages(program), std::move(state));
  Graph& graph = program.graph;
  std::vector<Output> outputs;
  std::vector<Argument> values;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const auto* value = std::get_if<ValueName>(&graph.outputs[i].value);
    if (program.outputs[i].buffer.empty()) {
      outputs.push_back(std::move(program.outputs[i]));
      values.push_back(std::move(graph.outputs[i]));
    } else if (value != nullptr) {
      derivation.set_new_value(value->name, "the buffer " + json_quoted(program.outputs[i].buffer));
    }
  }
  program.outputs = std::move(outputs);
  graph.outputs = std::move(values);
  derivation.run();
  for (const Argument& output : graph.outputs) {
    std::vector<std::string> names;
    append_values(names, output);
    for (const std::string& name : names) {
      const std::string objection = derivation.objection_to(name);
      if (!objection.empty()) throw DataError(source + ": " + objection + ": export the model in evaluation mode, too");
    }
  }
  return program;
}

std::vector<bool> written_inputs(const Program& program) {
  Storages storages(program);
  std::set<std::size_t> changed;
  for (const Node& node : program.graph.nodes) {
    for (const std::size_t storage : storages.written_by(node)) changed.insert(storage);
    storages.define_results(node);
  }
  std::vector<bool> written;
  for (const Input& input : program.inputs) {
    written.push_back(is_kept(input) && changed.contains(storages.of(input.value)));
  }
  return written;
}

bool is_set_to_evaluation(const Program& program) {
  Names frozen;
  for (const Input& input : program.inputs) {
    const auto stored = program.weights.find(input.target);
    const bool is_known = input.kind == Input::Kind::kParameter && stored != program.weights.end();
    if (is_known && !stored->second.requires_grad) frozen.insert(input.value);
  }
  const SwitchCount count = count_switches(program.graph, frozen);
  return count.evaluation > 0 && count.training == 0;
}

}  // namespace mn::exported
