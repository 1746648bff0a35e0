/// Which arguments of libtorch's operators tell training from evaluation.
#pragma once

#include <optional>
#include <string>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Whether the argument is such a switch. A normalization without running statistics has none: it works alike in both.
[[nodiscard]] bool is_training_switch(const Node& node, const std::string& argument);

/// True: set to training; false: to evaluation. No value if that can't be told: a rate of 0 is right in both.
[[nodiscard]] std::optional<bool> setting_of(const Argument& given);

/// What the switch is in evaluation.
[[nodiscard]] Argument evaluation_setting(const std::string& argument);

/// Whether the graph has operators that behave differently in training, and all of them are set to evaluation, but not
/// for batch norms alone whose weights are frozen, which is meant.
[[nodiscard]] bool is_set_to_evaluation(const Program& program);

}  // namespace mn::exported
