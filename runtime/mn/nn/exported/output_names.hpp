/// Names of the outputs of an exported program.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::exported {

/// The names of the tensors that the model returns, in order: the keys and fields that lead to a tensor in the result
/// of Python's forward(), or its position: "logits", "0", "hidden.1"; a single tensor is "output". Empty if the file
/// has no names. `module` is the file's graph_module. Throws UnknownForm, or nlohmann's exceptions for JSON of a wrong
/// form.
[[nodiscard]] std::vector<std::string> output_names(const nlohmann::json& module);

}  // namespace mn::exported
