/// Derives the graph for evaluation from the graph for training.
#pragma once

#include <string>
#include <vector>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// In the result dropout is off, normalizations use their running statistics, nodes that only change the model's state
/// are left out, and only the user's outputs remain. Operators that change state in evaluation, too, such as observers
/// of quantization, remain: give them copies of the inputs that written_inputs() names.
///
/// Throws DataError of one line that begins with `source` and names a node, if an output depends on random numbers that
/// have no switch, or on the new value of a buffer or a parameter: the graph does not tell whether the model changes it
/// in evaluation. Also throws if forward() changes numbers on which no output depends, as if only evaluation read them.
[[nodiscard]] Program derive_evaluation(Program program, const std::string& source);

/// [inputs] true if the input is a parameter, buffer or constant that an operator of the graph changes in place.
[[nodiscard]] std::vector<bool> written_inputs(const Program& program);

}  // namespace mn::exported
