#include "tests/comm/programs/model.hpp"

#include <algorithm>

namespace mn::testing {
namespace {

int value(const Action& action, int rank, std::size_t i) {
  return static_cast<int>((i * 3 + static_cast<std::size_t>(rank) * 5 + static_cast<std::size_t>(action.id) * 11) % 7);
}

int reduction_input(const Action& action, int rank, int size, std::size_t i) {
  const bool is_float = action.dtype >= DType::kFloat16 && action.dtype <= DType::kFloat64;
  if (is_float && i % 89 == 3 && action.id % size == rank) return kNaN;
  const int plain = value(action, rank, i);
  if (action.op == ReduceOp::kAverage) return size * plain;  // so that quotients are exact
  return action.op == ReduceOp::kProd ? 1 + plain % 2 : plain;
}

int combined(ReduceOp op, int a, int b) {
  if (a == kNaN || b == kNaN) return kNaN;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
  }
  return kNaN;
}

}  // namespace

Values values_of(const Action& action, int rank, std::size_t count, std::size_t first) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(action, rank, first + i);
  return values;
}

Values values_of_all(const Action& action, int size, std::size_t count, std::size_t first) {
  Values all;
  for (int r = 0; r < size; ++r) {
    const Values theirs = values_of(action, r, count, first);
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

Values sums_of(const Action& action, int size) {
  Values sums(action.count, 0);
  for (int r = 0; r < size; ++r) {
    for (std::size_t i = 0; i < action.count; ++i) sums[i] += value(action, r, i);
  }
  return sums;
}

Values reduction_inputs(const Action& action, int rank, int size, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = reduction_input(action, rank, size, i);
  return values;
}

Values reduced(const Action& action, int size, std::size_t first, std::size_t count) {
  Values result(count);
  for (std::size_t i = 0; i < count; ++i) {
    result[i] = reduction_input(action, 0, size, first + i);
    for (int r = 1; r < size; ++r) {
      result[i] = combined(action.op, result[i], reduction_input(action, r, size, first + i));
    }
    if (action.op == ReduceOp::kAverage && result[i] != kNaN) result[i] /= size;
  }
  return result;
}

std::string object_of(const Action& action, int rank) {
  const auto length = static_cast<std::size_t>(action.id * 37 + rank) % 5000;
  return std::string(length, static_cast<char>('a' + rank)) + std::to_string(action.id);
}

std::vector<std::string> objects_of_all(const Action& action, int size) {
  std::vector<std::string> objects;
  for (int r = 0; r < size; ++r) objects.push_back(object_of(action, r));
  return objects;
}

}  // namespace mn::testing
