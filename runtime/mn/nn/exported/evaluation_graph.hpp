/// Derives the graph for evaluation from the graph for training.
#pragma once

#include <string>
#include <vector>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Returns the program for evaluation. Dropout is off, and normalizations use their running statistics. Nodes that only
/// change the model's state are left out. Of the outputs only those remain that the model returns. Some operators
/// change state in evaluation, too, for example observers of quantization. They remain, and the caller must give them
/// copies of the inputs for which written_inputs() is true.
///
/// Throws a DataError of one line that begins with `source` and names a node, if an output depends on random numbers
/// that have no switch, or on the new value of a buffer or a parameter. (The graph does not say whether the model
/// changes this buffer or parameter in evaluation, too.) Also throws if forward() changes values on which no output
/// depends, because only evaluation may read them.
[[nodiscard]] Program derive_evaluation(Program program, const std::string& source);

/// Returns for each input whether it is a parameter, buffer or constant that an operator of the graph changes in place.
[[nodiscard]] std::vector<bool> written_inputs(const Program& program);

}  // namespace mn::exported
