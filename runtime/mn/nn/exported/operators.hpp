/// Operators of an exported graph in libtorch's dispatcher.
#pragma once

#include <optional>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// `target` is like "torch.ops.aten.add.Tensor"; no value if libtorch does not have the operator.
[[nodiscard]] std::optional<c10::OperatorHandle> find_operator(const std::string& target);

/// The text of an UnknownForm for a target that find_operator() does not find.
[[nodiscard]] std::string unknown_operator(const std::string& target);

/// The node's argument of this name; null if the node does not have it.
[[nodiscard]] const Argument* find_input(const Node& node, const std::string& name);

/// The names of the values that the node's operator reads, and of the values that it returns.
[[nodiscard]] std::vector<std::string> values_read(const Node& node);
[[nodiscard]] std::vector<std::string> values_returned(const Node& node);

}  // namespace mn::exported
