/// Writes the options and state of a torch optimizer to bytes, and loads them, in libtorch's own archive format.
#pragma once

#include <string>
#include <string_view>

#include <c10/core/Device.h>

namespace torch::optim {
class Optimizer;
}

namespace mn {

/// Not collective: the optimizer's options and state as bytes. For a MultiNodeOptimizer, pass its actual().
[[nodiscard]] std::string optimizer_bytes(const torch::optim::Optimizer& optimizer);
/// True if an archive is empty. libtorch writes an empty archive for an optimizer that has no save() of its own.
[[nodiscard]] bool is_empty_archive(std::string_view bytes);
/// Not collective: loads options and state from an archive; the state's tensors go to `device`. libtorch throws if the
/// archive does not match the optimizer.
void load_optimizer(torch::optim::Optimizer& optimizer, std::string_view bytes, c10::Device device);

}  // namespace mn
