#include <mn/nn/exported/operators.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace mn::exported {
namespace {

/// Operators that only Python has: a part of the target, and advice how to export a model without the operator.
constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
    {"torch._functorch.",
     "is torch.vmap's or torch.func's own: run_decompositions() before torch.export.save replaces "
     "it"},
    {"transformers.grouped_mm_fallback", "is transformers' own: give the model experts_implementation=\"batched_mm\""},
};

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

const Argument* find_input(const Node& node, const std::string& name) {
  const auto found = std::ranges::find(node.inputs, name, &NamedArgument::name);
  return found == node.inputs.end() ? nullptr : &found->value;
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

}  // namespace mn::exported
