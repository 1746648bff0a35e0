#include <mn/nn/exported/aliases.hpp>

#include <algorithm>

#include <ATen/core/alias_info.h>
#include <ATen/core/function_schema.h>

#include <mn/nn/exported/operators.hpp>

namespace mn::exported {
namespace {

bool writes(const c10::AliasInfo& info) { return info.isWrite() || std::ranges::any_of(info.containedTypes(), writes); }

/// True if two arguments or results of an operator share memory: the schema marks both with the same letter, as in
/// "Tensor(a) self" and "Tensor(a)[]".
bool share(const c10::AliasInfo& one, const c10::AliasInfo& other) {
  const auto has = [&](const auto& letter) { return other.beforeSets().count(letter) > 0; };
  if (std::ranges::any_of(one.beforeSets(), has)) return true;
  const auto with_parts = [](const auto& parts, const c10::AliasInfo& whole) {
    return std::ranges::any_of(parts, [&](const c10::AliasInfo& part) { return share(part, whole); });
  };
  return with_parts(one.containedTypes(), other) || with_parts(other.containedTypes(), one);
}

/// True if the argument is a running statistic of a normalization in training. The operator writes to it, although its
/// schema does not say so.
bool moves_statistics(const Node& node, const std::string& argument) {
  if (argument != "running_mean" && argument != "running_var") return false;
  return std::ranges::any_of(node.inputs, [&](const NamedArgument& input) {
    return is_training_switch(node, input.name) && setting_of(input.value).value_or(false);
  });
}

}  // namespace

Aliases::Aliases(const std::vector<std::string>& inputs) : count_(inputs.size()) {
  for (std::size_t i = 0; i < inputs.size(); ++i) storages_[inputs[i]] = i;
}

Aliases::Aliases(const Program& program) : Aliases(program.graph.inputs) {
  std::map<std::string, std::size_t> by_record;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    const auto& tensors = is_state(input) ? program.weights : program.constants;
    const auto stored = tensors.find(input.target);
    if (stored == tensors.end()) continue;
    storages_[input.value] = by_record.emplace(stored->second.record, i).first->second;
  }
}

std::size_t Aliases::of(const std::string& value) const {
  const auto found = storages_.find(value);
  if (found == storages_.end()) throw UnknownForm("the value " + value + ", which nothing before it makes");
  return found->second;
}

std::vector<std::size_t> Aliases::written_by(const Node& node) const {
  std::vector<std::size_t> written;
  const auto found = find_operator(node.target);
  if (!found) return written;
  for (const c10::Argument& parameter : found->schema().arguments()) {
    const bool is_written = parameter.alias_info() != nullptr && writes(*parameter.alias_info());
    const Argument* given = find_input(node, parameter.name());
    if (given == nullptr || (!is_written && !moves_statistics(node, parameter.name()))) continue;
    std::vector<std::string> values;
    append_values(values, *given);
    for (const std::string& value : values) written.push_back(of(value));
  }
  return written;
}

void Aliases::define_results(const Node& node) {
  const auto found = find_operator(node.target);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    std::size_t storage = count_++;
    const c10::AliasInfo* result = nullptr;
    if (found && i < found->schema().returns().size()) result = found->schema().returns()[i].alias_info();
    for (const NamedArgument& input : node.inputs) {
      const auto position = result != nullptr ? found->schema().argumentIndexWithName(input.name) : std::nullopt;
      const auto* info = position ? found->schema().arguments()[*position].alias_info() : nullptr;
      std::vector<std::string> values;
      append_values(values, input.value);
      if (info != nullptr && !values.empty() && share(*result, *info)) storage = of(values.front());
    }
    std::vector<std::string> made;
    append_values(made, node.outputs[i]);
    for (const std::string& value : made) storages_[value] = storage;
  }
}

}  // namespace mn::exported
