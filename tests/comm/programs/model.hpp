/// The values that each rank sends in a call of a random program, and the results: the whole program in one process.
#pragma once

#include <climits>
#include <string>
#include <vector>

#include "tests/comm/programs/program.hpp"

namespace mn::testing {

using Values = std::vector<int>;

/// Stands for a NaN among the values of floats.
inline constexpr int kNaN = INT_MIN;

/// Elements `first` and on of what `rank` sends: 0 to 6.
[[nodiscard]] Values values_of(const Action& action, int rank, std::size_t count, std::size_t first = 0);
/// values_of() of all ranks, by rank.
[[nodiscard]] Values values_of_all(const Action& action, int size, std::size_t count, std::size_t first = 0);
/// Sums over ranks of values_of().
[[nodiscard]] Values sums_of(const Action& action, int size);

/// Inputs of `rank` for a reduction by action.op. Products are of 1 and 2, exact in every dtype; among floats one rank
/// has some NaNs.
[[nodiscard]] Values reduction_inputs(const Action& action, int rank, int size, std::size_t count);
/// The reduction over ranks of `count` elements from `first` on.
[[nodiscard]] Values reduced(const Action& action, int size, std::size_t first, std::size_t count);

/// The string that `rank` sends.
[[nodiscard]] std::string object_of(const Action& action, int rank);
[[nodiscard]] std::vector<std::string> objects_of_all(const Action& action, int size);

}  // namespace mn::testing
