// Visits the nodes in the order of the graph.
//
// (1) Every argument for which is_training_switch() is true is set to evaluation.
// (2) A node is left out if it draws random numbers without a switch, if it writes to a parameter, buffer or constant,
//     or if it reads a result of a node that is left out. A node also counts as writing to a buffer if its result
//     becomes the buffer at the end of forward(), as after run_decompositions().
// (3) Therefore the remaining nodes compute the same in training and in evaluation. If (2) removes an output,
//     derive_evaluation() throws.
// (4) Operators in kInBothModes write to their inputs in evaluation, too, and therefore remain.

#include <mn/nn/exported/evaluation_graph.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/core/enum_tag.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/nn/exported/aliases.hpp>
#include <mn/nn/exported/argument.hpp>
#include <mn/nn/exported/enumerations.hpp>
#include <mn/nn/exported/operators.hpp>

namespace mn::exported {
namespace {

/// torch's modules call these operators in training and in evaluation, so they remain.
constexpr std::string_view kInBothModes[] = {
    "torch.ops.aten.fused_moving_avg_obs_fake_quant.default",
    "torch.ops.aten._fused_moving_avg_obs_fq_helper.default",
    "torch.ops.aten.embedding_renorm_.default",
};
constexpr std::string_view kRenorm =
    "torch.ops.aten.embedding_renorm.default";  // embedding_renorm_, without writes in place

bool is_in_both_modes(const Node& node) {
  return std::ranges::find(kInBothModes, node.target) != std::end(kInBothModes);
}

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

class Derivation {
 public:
  /// state[i] is the name of input i for error messages; empty if nodes may write to input i.
  Derivation(Graph& graph, Aliases aliases, std::vector<std::string> state)
      : graph_(graph), state_(std::move(state)), aliases_(std::move(aliases)) {}

  /// Notes that `value` becomes the new value of the input `input` at the end of forward().
  void set_new_value(const std::string& value, const std::string& input) {
    new_values_[value] = aliases_.of(input);
    const bool is_input = std::ranges::find(graph_.inputs, value) != graph_.inputs.end();
    if (is_input) stale_[value] = "the input " + json_quoted(value) + objection_to_new(value);
  }

  void run() {
    std::vector<Node> kept;
    for (Node& node : graph_.nodes) {
      switch_off(node);
      const std::string objection = objection_to(node);
      const std::vector<std::size_t> written = aliases_.written_by(node);
      Effect& effect = effects_.emplace_back(Effect{storages_of(values_read(node)), written, objection.empty()});
      aliases_.define_results(node);
      const std::vector<std::size_t> made = storages_of(values_returned(node));
      effect.makes.insert(effect.makes.end(), made.begin(), made.end());
      if (objection.empty()) {
        add_new_values(node);
        kept.push_back(std::move(node));
        continue;
      }
      for (const std::string& value : values_returned(node)) stale_[value] = objection;
      for (const std::size_t storage : written) left_out_[storage] = objection;
    }
    graph_.nodes = std::move(kept);
  }

  /// Returns the inputs that change only in training, and on which no output depends, not even through another input's
  /// new value.
  [[nodiscard]] std::set<std::size_t> unread(const std::vector<std::string>& outputs) const {
    std::set<std::size_t> read, changed;
    for (const std::size_t storage : storages_of(outputs)) read.insert(storage);
    add_sources(read, false);
    add_sources(read, true);
    for (const auto& [value, storage] : new_values_) changed.insert(storage);
    for (const auto& [storage, objection] : left_out_) {
      if (storage < state_.size() && !state_[storage].empty()) changed.insert(storage);
    }
    for (const std::size_t storage : read) changed.erase(storage);
    return changed;
  }

  /// Returns why evaluation can't use `value`; empty if it can.
  [[nodiscard]] std::string objection_to(const std::string& value) const {
    if (const auto found = stale_.find(value); found != stale_.end()) return found->second;
    const auto found = left_out_.find(aliases_.of(value));
    return found == left_out_.end() ? "" : found->second;
  }

 private:
  struct Effect {
    std::vector<std::size_t> reads;
    std::vector<std::size_t> makes;
    bool is_kept;
  };

  [[nodiscard]] std::vector<std::size_t> storages_of(const std::vector<std::string>& values) const {
    std::vector<std::size_t> storages;
    for (const std::string& value : values) storages.push_back(aliases_.of(value));
    return storages;
  }

  /// Adds the storages from which `storages` are computed: by all nodes if `all` is true, otherwise by the nodes that
  /// remain.
  void add_sources(std::set<std::size_t>& storages, bool all) const {
    const auto is_needed = [&](std::size_t storage) { return storages.contains(storage); };
    for (std::size_t before = 0; before != storages.size();) {
      before = storages.size();
      for (auto effect = effects_.rbegin(); effect != effects_.rend(); ++effect) {
        if ((all || effect->is_kept) && std::ranges::any_of(effect->makes, is_needed)) {
          storages.insert(effect->reads.begin(), effect->reads.end());
        }
      }
      for (const auto& [value, storage] : new_values_) {
        if (all && is_needed(storage)) storages.insert(aliases_.of(value));
      }
    }
  }

  [[nodiscard]] std::string objection_to(Node& node) {
    for (const std::string& value : values_read(node)) {
      if (std::string objection = objection_to(value); !objection.empty()) return objection;
    }
    if (is_random(node)) return node.what + " has random numbers that can't be turned off for evaluation";
    for (const std::size_t storage : aliases_.written_by(node)) {
      if (storage >= state_.size() || state_[storage].empty() || is_meant(node)) continue;
      return node.what + " changes " + state_[storage] +
             ", which an output depends on, and the graph does not say whether evaluation changes it, too";
    }
    return objection_within(node);
  }

  /// Returns why evaluation can't use the node's inner graphs, for example a write to an outer value. Empty if it can.
  [[nodiscard]] static std::string objection_within(Node& node) {
    for (Graph& graph : node.graphs) {
      const std::vector<std::string> around(graph.inputs.size(), "a value of the graph around it");
      Derivation inner(graph, Aliases(graph.inputs), around);
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

  /// True if the node writes in evaluation, too: its operator is in kInBothModes, or it copies a result of kRenorm.
  [[nodiscard]] bool is_meant(const Node& node) const {
    const auto values = values_read(node);
    return is_in_both_modes(node) ||
           std::ranges::any_of(values, [&](const std::string& value) { return renormed_.contains(value); });
  }

  void add_new_values(const Node& node) {
    for (const std::string& value : values_returned(node)) {
      if (node.target == kRenorm) renormed_.insert(value);
      if (new_values_.contains(value)) stale_[value] = node.what + objection_to_new(value);
    }
  }

  [[nodiscard]] std::string objection_to_new(const std::string& value) const {
    return " makes the new value of " + state_[new_values_.at(value)] +
           ", which an output depends on, and the graph does not say whether evaluation changes it, too";
  }

  Graph& graph_;
  std::vector<std::string> state_;
  Aliases aliases_;
  std::vector<Effect> effects_;                    // [nodes]
  std::map<std::string, std::size_t> new_values_;  // value → the input that it becomes
  std::map<std::string, std::string> stale_;       // value → the reason why nodes that read it are left out
  std::map<std::size_t, std::string> left_out_;    // storage → the reason why nodes that read it are left out
  std::set<std::string> renormed_;                 // results of kRenorm
};

std::string name_of(const Input& input) {
  return (input.kind == Input::Kind::kParameter ? "the parameter " : "the buffer ") + json_quoted(input.target);
}

/// Removes from the program the outputs that become buffers, and notes them in `derivation`.
void take_new_values(Program& program, Derivation& derivation) {
  std::vector<Output> outputs;
  std::vector<Argument> values;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const auto* value = std::get_if<ValueName>(&program.graph.outputs[i].value);
    if (program.outputs[i].buffer.empty()) {
      outputs.push_back(std::move(program.outputs[i]));
      values.push_back(std::move(program.graph.outputs[i]));
      continue;
    }
    for (std::size_t k = 0; value != nullptr && k < program.inputs.size(); ++k) {
      const Input& input = program.inputs[k];
      if (input.kind == Input::Kind::kBuffer && input.target == program.outputs[i].buffer)
        derivation.set_new_value(value->name, input.value);
    }
  }
  program.outputs = std::move(outputs);
  program.graph.outputs = std::move(values);
}

/// True if the input is an integer: probably a count, as of a batch norm's minibatches, or a position in a queue.
bool is_counter(const Program& program, const Input& input) {
  const auto& tensors = is_state(input) ? program.weights : program.constants;
  const auto stored = tensors.find(input.target);
  return stored != tensors.end() && c10::isIntegralType(scalar_type_of(stored->second.dtype), true);
}

}  // namespace

Program derive_evaluation(Program program, const std::string& source) {
  const auto fail = [&](const std::string& why) {
    throw DataError(source + ": " + why + ": export the model in evaluation mode, too");
  };
  std::vector<std::string> state;
  for (const Input& input : program.inputs) state.push_back(is_kept(input) ? name_of(input) : "");
  Derivation derivation(program.graph, Aliases(program), state);
  take_new_values(program, derivation);
  derivation.run();
  std::vector<std::string> outputs;
  for (const Argument& output : program.graph.outputs) append_values(outputs, output);
  for (const std::string& output : outputs) {
    if (const std::string objection = derivation.objection_to(output); !objection.empty()) fail(objection);
  }
  for (const std::size_t input : derivation.unread(outputs)) {
    if (is_counter(program, program.inputs[input])) continue;
    fail("training changes " + state[input] + ", on which no output depends, as if evaluation alone read it");
  }
  return program;
}

std::vector<bool> written_inputs(const Program& program) {
  Aliases aliases(program);
  std::set<std::size_t> changed;
  for (const Node& node : program.graph.nodes) {
    for (const std::size_t storage : aliases.written_by(node)) changed.insert(storage);
    aliases.define_results(node);
  }
  std::vector<bool> written;
  for (const Input& input : program.inputs) {
    written.push_back(is_kept(input) && changed.contains(aliases.of(input.value)));
  }
  return written;
}

}  // namespace mn::exported
