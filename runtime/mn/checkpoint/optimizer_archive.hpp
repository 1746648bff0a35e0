/// A torch optimizer as bytes, in libtorch's own archive format.
#pragma once

#include <string>
#include <string_view>

#include <c10/core/Device.h>

namespace torch::optim {
class Optimizer;
}

namespace mn {

/// Options and state. Local; a MultiNodeOptimizer's is actual().
[[nodiscard]] std::string optimizer_bytes(const torch::optim::Optimizer& optimizer);
/// Whether the bytes hold nothing: an optimizer without a save() of its own has libtorch's, which is empty.
[[nodiscard]] bool is_empty_archive(std::string_view bytes);
/// Loads options and state; tensors go to `device`. Local. libtorch throws at a mismatch.
void load_optimizer(torch::optim::Optimizer& optimizer, std::string_view bytes, c10::Device device);

}  // namespace mn
