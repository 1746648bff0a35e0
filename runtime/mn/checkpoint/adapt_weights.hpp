/// Adapts the weights of a checkpoint file to a module's names and dtypes.
#pragma once

#include <string>

#include <mn/tensor/modules.hpp>

namespace mn {

/// Casts floating-point tensors to the module's dtypes. Wrappers add "module." (DistributedDataParallel), "_orig_mod."
/// (torch.compile) and two more words to names; a word is removed if the module has only the shorter name. Also removes
/// the prefix, such as "backbone.", without which the most names match. Logs the changes in a line that begins with
/// `source`. Sends nothing.
[[nodiscard]] NamedTensors adapt_weights(NamedTensors tensors, const torch::nn::Module& module,
                                         const std::string& source);

}  // namespace mn
