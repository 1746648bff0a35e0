/// Python's operators on numbers, which stand in an exported graph where it computes with sizes.
#pragma once

#include <cstddef>
#include <string_view>

#include <ATen/core/stack.h>

namespace mn::exported {

/// One of Python's operators on ints, floats and bools.
struct NumberOperator {
  std::string_view target;  ///< as the file calls it: "_operator.floordiv"
  std::size_t operands;
  void (*call)(torch::jit::Stack& stack);  ///< replaces the operands by the result
};

/// Null for any other target.
[[nodiscard]] const NumberOperator* find_number_operator(std::string_view target);

}  // namespace mn::exported
