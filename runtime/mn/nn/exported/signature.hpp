/// What the graph of an exported program takes and returns.
#pragma once

#include <string>
#include <vector>

#include <mn/core/json.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// A value of a graph without operators in place that becomes a parameter, or an argument of forward().
struct Mutation {
  std::string value;
  std::string input;  ///< name of what it becomes, a value of the graph
};

/// One for each output of the graph, but for mutations.
struct Results {
  std::vector<Argument> values = {};
  std::vector<Output> outputs = {};
  std::vector<Mutation> mutations = {};
};

/// `document` is the program. Both functions throw UnknownForm, or nlohmann's exceptions for JSON of another form.
[[nodiscard]] std::vector<Input> read_inputs(const nlohmann::json& document);
/// `module` is the program's graph_module, `inputs` what read_inputs() has returned.
[[nodiscard]] Results read_results(const nlohmann::json& module, const std::vector<Input>& inputs,
                                   const Rename& rename);

}  // namespace mn::exported
