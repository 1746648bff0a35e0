/// A torch optimizer as bytes, in libtorch's own archive format.
#pragma once

#include <string>
#include <string_view>

#include <c10/core/Device.h>

namespace torch::optim {
class Optimizer;
}

namespace mn {

/// The optimizer's options and state. Not collective. For a MultiNodeOptimizer, pass its actual().
[[nodiscard]] std::string optimizer_bytes(const torch::optim::Optimizer& optimizer);
/// True for an empty archive, which libtorch writes for optimizers without a save() of their own.
[[nodiscard]] bool is_empty_archive(std::string_view bytes);
/// Loads options and state, with tensors on `device`. Not collective. libtorch throws if the archive does not match.
void load_optimizer(torch::optim::Optimizer& optimizer, std::string_view bytes, c10::Device device);

}  // namespace mn
