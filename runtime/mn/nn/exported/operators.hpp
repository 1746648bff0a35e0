/// Finds the operators of an exported graph in libtorch's dispatcher. Also knows their arguments that switch between
/// training and evaluation.
#pragma once

#include <optional>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Finds an operator by a name like "torch.ops.aten.add.Tensor"; no value if libtorch does not have it.
[[nodiscard]] std::optional<c10::OperatorHandle> find_operator(const std::string& target);

/// Returns the error text for an UnknownForm exception, to be thrown if find_operator() does not find `target`.
[[nodiscard]] std::string unknown_operator(const std::string& target);

/// The names of the values that the node's operator reads, and of the values that it returns.
[[nodiscard]] std::vector<std::string> values_read(const Node& node);
[[nodiscard]] std::vector<std::string> values_returned(const Node& node);

/// True if the argument switches between training and evaluation. A normalization without running statistics has no
/// switch, because it works alike in both modes.
[[nodiscard]] bool is_training_switch(const Node& node, const std::string& argument);

/// True if the switch is set to training, false if it is set to evaluation. No value if the setting suits both modes,
/// as a dropout rate of 0 does.
[[nodiscard]] std::optional<bool> setting_of(const Argument& given);

[[nodiscard]] Argument evaluation_setting(const std::string& argument);

/// True if the graph has switches, and all are set to evaluation. False if all of these belong to batch norms with
/// frozen weights, which are off on purpose.
[[nodiscard]] bool is_set_to_evaluation(const Program& program);

}  // namespace mn::exported
