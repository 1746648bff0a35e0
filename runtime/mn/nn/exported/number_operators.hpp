/// Python's operators on numbers, with which an exported graph computes sizes.
#pragma once

#include <cstddef>
#include <string_view>

#include <ATen/core/stack.h>

namespace mn::exported {

/// One of Python's operators on ints, floats and bools.
struct NumberOperator {
  std::string_view target;  ///< name in the file: "_operator.floordiv"
  std::size_t operands;
  void (*call)(torch::jit::Stack& stack);  ///< replaces the operands by the result
};

/// Null if `target` is not an operator on numbers.
[[nodiscard]] const NumberOperator* find_number_operator(std::string_view target);

}  // namespace mn::exported
