/// Weights of a file as a module names and stores them.
#pragma once

#include <string>

#include <mn/tensor/modules.hpp>

namespace mn {

/// Tensors of a file, floats cast to the module's dtype, and names without the "module." of DistributedDataParallel and
/// the "_orig_mod." of torch.compile where the module has only the shorter name. One log line that begins with `source`
/// says what was changed. Local.
[[nodiscard]] NamedTensors adapt_weights(NamedTensors tensors, const torch::nn::Module& module,
                                         const std::string& source);

}  // namespace mn
