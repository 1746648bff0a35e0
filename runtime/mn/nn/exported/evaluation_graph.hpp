/// The graph for evaluation, derived from the one for training.
#pragma once

#include <string>
#include <vector>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Dropout is off, normalizations use their running statistics, and what only changes the model's state is left out:
/// the result has the outputs that the user sees alone. Operators whose modules change state in evaluation, too, such
/// as observers of quantization, remain: they need copies of what written_inputs() names.
///
/// Throws DataError of one line that begins with `source` and names the node if an output depends on random numbers
/// that have no switch, or on what a buffer or a parameter becomes in forward(): whether the model changes it in
/// evaluation, too, the graph does not say. Likewise if forward() changes numbers that no output depends on, as if
/// evaluation alone read them.
[[nodiscard]] Program derive_evaluation(Program program, const std::string& source);

/// By input of the program: whether an operator of the graph writes to a parameter, buffer or constant in place.
[[nodiscard]] std::vector<bool> written_inputs(const Program& program);

}  // namespace mn::exported
