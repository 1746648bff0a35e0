/// Derives the graph for evaluation from the graph for training.
#pragma once

#include <string>
#include <vector>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Returns the program for evaluation: dropout is off, normalizations use their running statistics, and nodes that only
/// change the model's state are left out. Only the outputs that the model returns remain. Some operators, for example
/// observers of quantization, change state in evaluation, too. They remain, and the caller must give them copies of the
/// inputs for which written_inputs() is true.
///
/// Throws a DataError of one line that begins with `source` and names a node, if an output depends on random numbers
/// that have no switch, or on the new value of a buffer or parameter: the graph does not tell whether the model changes
/// this value in evaluation, too. Also throws if forward() changes values on which no output depends, because perhaps
/// evaluation reads them.
[[nodiscard]] Program derive_evaluation(Program program, const std::string& source);

/// Returns for each input whether it is a parameter, buffer or constant that an operator of the graph changes in place.
[[nodiscard]] std::vector<bool> written_inputs(const Program& program);

}  // namespace mn::exported
