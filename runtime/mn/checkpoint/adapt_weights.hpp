/// Adapts the weights of a file to a module's names and dtypes.
#pragma once

#include <string>

#include <mn/tensor/modules.hpp>

namespace mn {

/// Casts floating-point tensors to the module's dtypes. Removes "module." (DistributedDataParallel), "_orig_mod."
/// (torch.compile) and the parts of two more wrappers from names if the module only has the shorter name. Also removes
/// the common prefix, such as "backbone.", with which the most names match. Logs the changes in a line that begins with
/// `source`. Sends nothing.
[[nodiscard]] NamedTensors adapt_weights(NamedTensors tensors, const torch::nn::Module& module,
                                         const std::string& source);

}  // namespace mn
