/// The inputs and outputs of an exported program's graph.
#pragma once

#include <string>
#include <vector>

#include <mn/core/json.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// In a graph without operators in place: a value that becomes the new value of a parameter or of an argument of
/// forward().
struct Mutation {
  std::string value;
  std::string input;  ///< name of the parameter's or argument's value in the graph
};

/// `values` and `outputs` have an element for each output of the graph that is not a mutation.
struct Results {
  std::vector<Argument> values = {};
  std::vector<Output> outputs = {};
  std::vector<Mutation> mutations = {};
};

/// `document` is the program. Both functions throw UnknownForm, or nlohmann's exceptions for JSON of a wrong form.
[[nodiscard]] std::vector<Input> read_inputs(const nlohmann::json& document);
/// `module` is the program's graph_module; `inputs` is the result of read_inputs().
[[nodiscard]] Results read_results(const nlohmann::json& module, const std::vector<Input>& inputs,
                                   const Rename& rename);

}  // namespace mn::exported
