/// Adapts the weights of a file to a module's names and dtypes.
#pragma once

#include <string>

#include <mn/tensor/modules.hpp>

namespace mn {

/// Casts floating-point tensors to the module's dtypes. Removes "module." (DistributedDataParallel), "_orig_mod."
/// (torch.compile) and the parts of two more wrappers from a name if the module has only the shorter name. Also removes
/// a common prefix such as "backbone.", if more of the file's names then match names of the module; among several such
/// prefixes, the prefix with the most matches. Logs the changes in a line that begins with `source`. Sends nothing to
/// other ranks.
[[nodiscard]] NamedTensors adapt_weights(NamedTensors tensors, const torch::nn::Module& module,
                                         const std::string& source);

}  // namespace mn
