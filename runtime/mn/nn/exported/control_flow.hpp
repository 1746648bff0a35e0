/// torch's operators that run graphs: torch.cond, while_loop, map and scan.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

namespace mn::exported {

/// What a graph takes or returns.
using Values = std::vector<c10::IValue>;
/// Runs one graph. Autograd sees its operators.
using RunGraph = std::function<Values(Values values, c10::Device device)>;

/// A node's graphs, and where they compute.
struct InnerGraphs {
  const std::vector<RunGraph>& graphs;
  c10::Device device;

  /// Runs graph i.
  [[nodiscard]] Values run(std::size_t i, Values values) const { return graphs[i](std::move(values), device); }
};

/// One of the operators. A node has its graphs first, then its operands, most of them lists.
struct ControlFlow {
  std::string_view target;   ///< as the file calls it: "torch.ops.higher_order.cond"
  std::size_t graphs;        ///< that a node has
  std::size_t operands;      ///< that a node has
  std::size_t own_operands;  ///< the first ones, which the graphs do not get; they get the values of all others
  Values (*call)(const InnerGraphs& inner, std::vector<Values> operands);
};

/// Null for any other target.
[[nodiscard]] const ControlFlow* find_control_flow(std::string_view target);

/// The operands whose values lie one after another, counts[i] of them in operand i.
[[nodiscard]] std::vector<Values> split(Values values, const std::vector<std::size_t>& counts);

}  // namespace mn::exported
