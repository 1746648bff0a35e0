// cond.py, while_loop.py, map.py and scan.py of torch/_higher_order_ops, run eagerly. Autograd sees the operators of a
// branch and of each turn of a loop, so control flow needs no backward.

#include <mn/nn/exported/control_flow.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include <mn/nn/exported/argument.hpp>

namespace mn::exported {
namespace {

using c10::IValue;

bool is_true(const IValue& value) {
  return value.isTensor() ? value.toTensor().item().toBool() : value.toScalar().toBool();
}

Values joined(Values first, const Values& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

const at::Tensor& tensor_of(const IValue& value) {
  if (!value.isTensor()) throw UnknownForm("a " + value.tagKind() + " where a Tensor is wanted");
  return value.toTensor();
}

/// Length of the first dimension, over which the operator loops.
std::int64_t length_of(const Values& lists) {
  const bool has_turns = !lists.empty() && tensor_of(lists.front()).dim() > 0 && tensor_of(lists.front()).size(0) > 0;
  if (!has_turns) throw UnknownForm("a dimension of no elements to go along");
  return tensor_of(lists.front()).size(0);
}

Values slice(const Values& lists, std::int64_t i) {
  Values items;
  for (const IValue& list : lists) items.emplace_back(tensor_of(list).select(0, i));
  return items;
}

/// Stacks the results of all turns: one tensor for each result, with the turns as first dimension.
Values stacked(const std::vector<Values>& turns) {
  Values results;
  for (std::size_t k = 0; k < turns.front().size(); ++k) {
    std::vector<at::Tensor> items;
    for (const Values& turn : turns) items.push_back(tensor_of(turn[k]));
    results.emplace_back(at::stack(items));
  }
  return results;
}

/// (condition) (operands)
Values run_cond(const InnerGraphs& inner, std::vector<Values> operands) {
  return inner.run(is_true(operands[0].at(0)) ? 0 : 1, std::move(operands[1]));
}

/// (carried) (additional): while graph 0 returns true, graph 1 computes the next carried values.
Values run_while_loop(const InnerGraphs& inner, std::vector<Values> operands) {
  Values carried = std::move(operands[0]);
  while (is_true(inner.run(0, joined(carried, operands[1])).at(0)))
    carried = inner.run(1, joined(carried, operands[1]));
  return carried;
}

/// (lists) (additional)
Values run_map(const InnerGraphs& inner, std::vector<Values> operands) {
  std::vector<Values> turns;
  for (std::int64_t i = 0; i < length_of(operands[0]); ++i) {
    turns.push_back(inner.run(0, joined(slice(operands[0], i), operands[1])));
  }
  return stacked(turns);
}

/// (carried) (lists) (additional): the graph returns the next carried values, then the turn's results.
Values run_scan(const InnerGraphs& inner, std::vector<Values> operands) {
  Values carried = std::move(operands[0]);
  const auto count = std::ssize(carried);
  std::vector<Values> turns;
  for (std::int64_t i = 0; i < length_of(operands[1]); ++i) {
    Values made = inner.run(0, joined(joined(std::move(carried), slice(operands[1], i)), operands[2]));
    if (std::ssize(made) < count) throw UnknownForm("a graph that returns less than is carried on");
    turns.emplace_back(made.begin() + count, made.end());
    made.resize(static_cast<std::size_t>(count));
    carried = std::move(made);
  }
  return joined(std::move(carried), stacked(turns));
}

constexpr ControlFlow kControlFlows[] = {
    {"torch.ops.higher_order.cond", 2, 2, 1, run_cond},
    {"torch.ops.higher_order.while_loop", 2, 2, 0, run_while_loop},
    {"torch.ops.higher_order.map_impl", 1, 2, 0, run_map},
    {"torch.ops.higher_order.scan", 1, 3, 0, run_scan},
};

}  // namespace

const ControlFlow* find_control_flow(std::string_view target) {
  const auto found = std::ranges::find(kControlFlows, target, &ControlFlow::target);
  return found == std::end(kControlFlows) ? nullptr : found;
}

std::vector<Values> split(Values values, const std::vector<std::size_t>& counts) {
  std::vector<Values> parts;
  auto next = std::make_move_iterator(values.begin());
  for (const std::size_t count : counts) {
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    parts.emplace_back(next, end);
    next = end;
  }
  return parts;
}

}  // namespace mn::exported
