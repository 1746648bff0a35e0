#include <mn/nn/exported/operators.hpp>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace mn::exported {
namespace {

/// Part of the name of an operator that only Python has, and advice how to export a model without it.
constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
    {"torch._functorch.",
     "is torch.vmap's or torch.func's own: run_decompositions() before torch.export.save replaces "
     "it"},
    {"transformers.grouped_mm_fallback", "is transformers' own: give the model experts_implementation=\"batched_mm\""},
};

constexpr const char* kDropoutRate = "dropout_p";  // dropout rate of attention; 0 in evaluation

/// How many switches of a graph are set to training, and how many to evaluation.
struct SwitchCount {
  int training = 0;
  int evaluation = 0;  // without frozen batch norms
};

using Names = std::set<std::string>;

/// Returns the inputs of the inner graph that receive values in `names`. The node's last arguments are the inner
/// graph's inputs, in order.
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
    const auto weight = std::ranges::find(node.inputs, "weight", &NamedArgument::name);
    const auto* name = weight != node.inputs.end() ? std::get_if<ValueName>(&weight->value.value) : nullptr;
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

std::optional<c10::OperatorHandle> find_operator(const std::string& target) {
  const std::string begin = "torch.ops.";
  const std::size_t name = target.find('.', begin.size()) + 1, overload = target.find('.', name) + 1;
  if (!target.starts_with(begin) || name == 0 || overload == 0) return std::nullopt;
  std::string variant = target.substr(overload);
  if (variant == "default") variant.clear();
  const std::string space = target.substr(begin.size(), name - 1 - begin.size());
  return c10::Dispatcher::singleton().findSchema(
      {space + "::" + target.substr(name, overload - 1 - name), std::move(variant)});
}

std::string unknown_operator(const std::string& target) {
  std::string text = "an operator that this libtorch does not have";
  for (const auto& [part, advice] : kAdvice) {
    if (target.find(part) != std::string::npos) text += "; it " + std::string(advice);
  }
  return text;
}

std::vector<std::string> values_read(const Node& node) {
  std::vector<std::string> values;
  for (const NamedArgument& input : node.inputs) append_values(values, input.value);
  return values;
}

std::vector<std::string> values_returned(const Node& node) {
  std::vector<std::string> values;
  for (const Argument& output : node.outputs) append_values(values, output);
  return values;
}

bool is_training_switch(const Node& node, const std::string& argument) {
  if (argument == kDropoutRate) return true;
  constexpr const char* kNames[] = {"train", "training", "use_input_stats"};
  if (std::ranges::find(kNames, argument) == std::end(kNames)) return false;
  if (node.target.find("_norm") == std::string::npos) return true;
  const auto statistics = std::ranges::find(node.inputs, "running_mean", &NamedArgument::name);
  return statistics != node.inputs.end() && !std::holds_alternative<std::monostate>(statistics->value.value);
}

std::optional<bool> setting_of(const Argument& given) {
  if (const auto* flag = std::get_if<bool>(&given.value)) return *flag;
  const auto* rate = std::get_if<double>(&given.value);
  return rate != nullptr && *rate > 0 ? std::optional(true) : std::nullopt;
}

Argument evaluation_setting(const std::string& argument) {
  return argument == kDropoutRate ? Argument{"as_float", 0.0} : Argument{"as_bool", false};
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
