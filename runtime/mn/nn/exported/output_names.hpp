/// How the outputs of an exported program are called.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Names those that the model returns after the keys and fields that lead to them in what Python's forward() returns,
/// or after their positions: "logits", "0", "hidden.1"; a tensor alone is "output". `module` is the file's
/// graph_module. Throws UnknownForm, or nlohmann's exceptions for JSON of another form.
void name_outputs(const nlohmann::json& module, std::vector<Output>& outputs);

}  // namespace mn::exported
