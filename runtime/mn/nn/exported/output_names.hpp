/// How the outputs of an exported program are called.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::exported {

/// The names of the tensors that the model returns, in order: the keys and fields that lead to them in what Python's
/// forward() returns, or their positions: "logits", "0", "hidden.1"; a tensor alone is "output". Empty if the file does
/// not say. `module` is its graph_module. Throws UnknownForm, or nlohmann's exceptions for JSON of another form.
[[nodiscard]] std::vector<std::string> output_names(const nlohmann::json& module);

}  // namespace mn::exported
