/// Operators that only Python has: on numbers, with which exported graphs compute sizes, and with inner graphs
/// (torch.cond, while_loop, map and scan).
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/stack.h>
#include <c10/core/Device.h>

namespace mn::exported {

struct NumberOperator {
  std::string_view target;  ///< name in the file: "_operator.floordiv"
  std::size_t operands;
  void (*call)(torch::jit::Stack& stack);  ///< replaces the operands by the result
};

/// Finds the operator named `target`; null if `target` is not an operator on numbers.
[[nodiscard]] const NumberOperator* find_number_operator(std::string_view target);

using Values = std::vector<c10::IValue>;
/// Runs one graph; autograd sees each operator.
using RunGraph = std::function<Values(Values values, c10::Device device)>;

struct InnerGraphs {
  const std::vector<RunGraph>& graphs;
  c10::Device device;

  [[nodiscard]] Values run(std::size_t i, Values values) const { return graphs[i](std::move(values), device); }
};

/// An operator with inner graphs. A node's arguments are the graphs, then the operands, mostly lists of values.
struct ControlFlow {
  std::string_view target;   ///< name in the file: "torch.ops.higher_order.cond"
  std::size_t graphs;        ///< number of a node's graphs
  std::size_t operands;      ///< number of a node's operands
  std::size_t own_operands;  ///< number of first operands that are not passed to the graphs
  Values (*call)(const InnerGraphs& inner, std::vector<Values> operands);
};

/// Finds the operator named `target`; null if `target` is not an operator with inner graphs.
[[nodiscard]] const ControlFlow* find_control_flow(std::string_view target);

/// Splits values into operands; operand i has counts[i] values.
[[nodiscard]] std::vector<Values> split(Values values, const std::vector<std::size_t>& counts);

}  // namespace mn::exported
