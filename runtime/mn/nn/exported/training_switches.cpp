#include <algorithm>

#include <mn/nn/exported/training_switches.hpp>

namespace mn::exported {
namespace {

constexpr const char* kDropoutRate = "dropout_p";  // attention's, which is 0 in evaluation

}  // namespace

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

}  // namespace mn::exported
