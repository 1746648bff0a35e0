#include <mn/nn/exported/number_operators.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>

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

/// Computes on integers if both operands are integers, else on floats.
template <class Operation>
void binary(Stack& stack, Operation operation) {
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

struct Modulo {
  template <class Number>
  Number operator()(Number a, Number b) const {
    return a - b * FloorDivide()(a, b);
  }
};

struct Maximum {
  template <class Number>
  Number operator()(Number a, Number b) const {
    return std::max(a, b);
  }
};

struct Minimum {
  template <class Number>
  Number operator()(Number a, Number b) const {
    return std::min(a, b);
  }
};

template <class Operation>
void apply(Stack& stack) {
  binary(stack, Operation());
}

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
    {"_operator.add", 2, apply<std::plus<>>},
    {"_operator.sub", 2, apply<std::minus<>>},
    {"_operator.mul", 2, apply<std::multiplies<>>},
    {"_operator.floordiv", 2, apply<FloorDivide>},
    {"_operator.mod", 2, apply<Modulo>},
    {"_operator.truediv", 2, divide},
    {"_operator.pow", 2, power},
    {"_operator.neg", 1, negate},
    {"_operator.eq", 2, apply<std::equal_to<>>},
    {"_operator.ne", 2, apply<std::not_equal_to<>>},
    {"_operator.lt", 2, apply<std::less<>>},
    {"_operator.le", 2, apply<std::less_equal<>>},
    {"_operator.gt", 2, apply<std::greater<>>},
    {"_operator.ge", 2, apply<std::greater_equal<>>},
    {"_operator.and_", 2, apply<std::logical_and<>>},
    {"_operator.or_", 2, apply<std::logical_or<>>},
    {"torch.sym_not", 1, logical_not},
    {"torch.sym_max", 2, apply<Maximum>},
    {"torch.sym_min", 2, apply<Minimum>},
    {"torch.sym_int", 1, truncate},
    {"torch.sym_float", 1, to_real},
    {"math.trunc", 1, truncate},
};

}  // namespace

const NumberOperator* find_number_operator(std::string_view target) {
  const auto found = std::ranges::find(kNumberOperators, target, &NumberOperator::target);
  return found == std::end(kNumberOperators) ? nullptr : found;
}

}  // namespace mn::exported
