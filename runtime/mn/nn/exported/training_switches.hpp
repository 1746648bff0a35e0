/// The arguments of libtorch's operators that switch between training and evaluation.
#pragma once

#include <optional>
#include <string>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// True if the argument is a switch. A normalization without running statistics has no switch, because it works alike
/// in both modes.
[[nodiscard]] bool is_training_switch(const Node& node, const std::string& argument);

/// True: the switch is set to training; false: to evaluation. No value if both are possible, as for a rate of 0.
[[nodiscard]] std::optional<bool> setting_of(const Argument& given);

/// The value of the switch in evaluation.
[[nodiscard]] Argument evaluation_setting(const std::string& argument);

/// True if the graph has switches and all are set to evaluation. False if all of its switches belong to batch norms
/// with frozen weights, which are meant to be off.
[[nodiscard]] bool is_set_to_evaluation(const Program& program);

}  // namespace mn::exported
