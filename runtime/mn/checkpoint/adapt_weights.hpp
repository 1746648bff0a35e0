/// Adapts the weights of a file to a module's names and dtypes.
#pragma once

#include <string>

#include <mn/tensor/modules.hpp>

namespace mn {

/// Casts floating-point tensors to the module's dtype. Removes "module." (DistributedDataParallel) and "_orig_mod."
/// (torch.compile) from names if the module has only the shorter name, and a prefix ("backbone.") if more of the
/// module's names stand behind this prefix in the file than without one or behind another. A log line that begins with `source` lists the
/// changes. Local.
[[nodiscard]] NamedTensors adapt_weights(NamedTensors tensors, const torch::nn::Module& module,
                                         const std::string& source);

}  // namespace mn
