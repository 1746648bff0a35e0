/// Turns changes of parameters and arguments into operators of the graph.
#pragma once

#include <vector>

#include <mn/nn/exported/signature.hpp>

namespace mn::exported {

/// run_decompositions() replaces operators in place: the graph returns the new value of a parameter or an argument of
/// forward(). write_back() adds nodes that copy each new value to the parameter or argument as soon as it is computed,
/// and later nodes read the parameter, as in the model's code: so gradients reach the parameter.
void write_back(Graph& graph, const std::vector<Mutation>& mutations);

}  // namespace mn::exported
