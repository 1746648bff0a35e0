/// Changes of parameters and arguments as operators of the graph.
#pragma once

#include <vector>

#include <mn/nn/exported/signature.hpp>

namespace mn::exported {

/// run_decompositions() replaces operators in place: the graph returns what a parameter or an argument of forward()
/// becomes. Copies each such value to where it belongs as soon as it is made, and lets what follows read it there, as
/// the model's code does: gradients then lead to the parameter.
void write_back(Graph& graph, const std::vector<Mutation>& mutations);

}  // namespace mn::exported
