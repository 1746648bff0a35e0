#include <mn/nn/exported/python_operators.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <utility>

#include <ATen/ops/stack.h>

#include <mn/nn/exported/argument.hpp>

namespace mn::exported {
namespace {

using c10::IValue;
using torch::jit::Stack;

double real_of(const IValue& value) { return value.toScalar().toDouble(); }
std::int64_t integer_of(const IValue& value) { return value.toScalar().toLong(); }

template <class Number>
IValue result_of(Number number) {
  return number;
}

/// Computes on integers if both operands are integers, otherwise on floats.
template <auto operation>
void binary(Stack& stack) {
  const IValue a = stack[0], b = stack[1];
  const bool is_real = a.isDouble() || b.isDouble();
  stack.assign(
      1, is_real ? result_of(operation(real_of(a), real_of(b))) : result_of(operation(integer_of(a), integer_of(b))));
}

struct FloorDivide {
  double operator()(double a, double b) const { return std::floor(a / b); }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    if (b == 0) throw UnknownForm("a division by zero");
    const std::int64_t quotient = a / b;
    return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
  }
};

constexpr auto kModulo = [](auto a, auto b) { return a - b * FloorDivide()(a, b); };
constexpr auto kMaximum = [](auto a, auto b) { return std::max(a, b); };
constexpr auto kMinimum = [](auto a, auto b) { return std::min(a, b); };

void divide(Stack& stack) { stack = {IValue(real_of(stack[0]) / real_of(stack[1]))}; }
void power(Stack& stack) {
  const bool is_real = stack[0].isDouble() || stack[1].isDouble();
  const double result = std::pow(real_of(stack[0]), real_of(stack[1]));
  stack = {is_real ? IValue(result) : IValue(static_cast<std::int64_t>(std::llround(result)))};
}
void negate(Stack& stack) {
  stack = {stack[0].isDouble() ? IValue(-real_of(stack[0])) : IValue(-integer_of(stack[0]))};
}
void logical_not(Stack& stack) { stack = {IValue(integer_of(stack[0]) == 0)}; }
void truncate(Stack& stack) { stack = {IValue(static_cast<std::int64_t>(real_of(stack[0])))}; }
void to_real(Stack& stack) { stack = {IValue(real_of(stack[0]))}; }

constexpr NumberOperator kNumberOperators[] = {
    {"_operator.add", 2, binary<std::plus<>{}>},
    {"_operator.sub", 2, binary<std::minus<>{}>},
    {"_operator.mul", 2, binary<std::multiplies<>{}>},
    {"_operator.floordiv", 2, binary<FloorDivide{}>},
    {"_operator.mod", 2, binary<kModulo>},
    {"_operator.truediv", 2, divide},
    {"_operator.pow", 2, power},
    {"_operator.neg", 1, negate},
    {"_operator.eq", 2, binary<std::equal_to<>{}>},
    {"_operator.ne", 2, binary<std::not_equal_to<>{}>},
    {"_operator.lt", 2, binary<std::less<>{}>},
    {"_operator.le", 2, binary<std::less_equal<>{}>},
    {"_operator.gt", 2, binary<std::greater<>{}>},
    {"_operator.ge", 2, binary<std::greater_equal<>{}>},
    {"_operator.and_", 2, binary<std::logical_and<>{}>},
    {"_operator.or_", 2, binary<std::logical_or<>{}>},
    {"torch.sym_not", 1, logical_not},
    {"torch.sym_max", 2, binary<kMaximum>},
    {"torch.sym_min", 2, binary<kMinimum>},
    {"torch.sym_int", 1, truncate},
    {"torch.sym_float", 1, to_real},
    {"math.trunc", 1, truncate},
};

// The functions below do what cond.py, while_loop.py, map.py and scan.py of torch/_higher_order_ops do. Autograd sees
// each operator that runs, so control flow needs no backward of its own.

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

/// The number of turns of a loop: the length of the lists' first dimension.
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

/// Stacks the results of all turns. Returns one tensor for each result, whose first dimension is the turn.
Values stacked(const std::vector<Values>& turns) {
  Values results;
  for (std::size_t k = 0; k < turns.front().size(); ++k) {
    std::vector<at::Tensor> items;
    for (const Values& turn : turns) items.push_back(tensor_of(turn[k]));
    results.emplace_back(at::stack(items));
  }
  return results;
}

/// torch.cond, on a condition and a list of arguments. Runs graph 0 if the condition is true, otherwise graph 1.
Values run_cond(const InnerGraphs& inner, std::vector<Values> operands) {
  return inner.run(is_true(operands[0].at(0)) ? 0 : 1, std::move(operands[1]));
}

/// torch.while_loop. The operands are the carried values and the additional values. While graph 0 returns true, graph 1
/// computes the next carried values.
Values run_while_loop(const InnerGraphs& inner, std::vector<Values> operands) {
  Values carried = std::move(operands[0]);
  while (is_true(inner.run(0, joined(carried, operands[1])).at(0)))
    carried = inner.run(1, joined(carried, operands[1]));
  return carried;
}

/// map. The operands are lists and additional values. Runs the graph once for each element of the lists.
Values run_map(const InnerGraphs& inner, std::vector<Values> operands) {
  std::vector<Values> turns;
  for (std::int64_t i = 0; i < length_of(operands[0]); ++i) {
    turns.push_back(inner.run(0, joined(slice(operands[0], i), operands[1])));
  }
  return stacked(turns);
}

/// scan. The operands are the carried values, lists, and additional values. For each element of the lists, the graph
/// returns the next carried values and then the results of this turn.
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

const NumberOperator* find_number_operator(std::string_view target) {
  const auto found = std::ranges::find(kNumberOperators, target, &NumberOperator::target);
  return found == std::end(kNumberOperators) ? nullptr : found;
}

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
