/// Operators of an exported graph in libtorch's dispatcher.
#pragma once

#include <optional>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// "torch.ops.aten.add.Tensor"; no value if libtorch has no such operator.
[[nodiscard]] std::optional<c10::OperatorHandle> find_operator(const std::string& target);

/// What UnknownForm says of a target that find_operator() does not find.
[[nodiscard]] std::string unknown_operator(const std::string& target);

/// Null if the node does not give the argument.
[[nodiscard]] const Argument* find_input(const Node& node, const std::string& name);

/// The names of the values that the node's operator is given, and of those that it returns.
[[nodiscard]] std::vector<std::string> values_read(const Node& node);
[[nodiscard]] std::vector<std::string> values_made(const Node& node);

}  // namespace mn::exported
