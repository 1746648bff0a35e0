/// The inputs and outputs of an exported program's graph.
#pragma once

#include <vector>

#include <mn/core/json.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Reads the inputs of a program from its document. Both functions throw UnknownForm or nlohmann's exceptions.
[[nodiscard]] std::vector<Input> read_inputs(const nlohmann::json& document);

/// Sets the outputs of a program whose inputs and nodes are already set. `module` is the program's graph_module.
///
/// After run_decompositions() no operator works in place: the graph returns the new value of a parameter or of an
/// argument of forward(). read_outputs() adds nodes that copy a new value to the parameter or argument as soon as the
/// value is computed. Later nodes read the parameter, as in the model's code; therefore gradients reach the parameter.
void read_outputs(const nlohmann::json& module, const Rename& rename, Program& program);

}  // namespace mn::exported
