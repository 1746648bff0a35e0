/// Tells a user whose training runs out of memory what helps.
#pragma once

#include <functional>

#include <mn/app/common_options.hpp>

namespace torch::nn {
class Module;
}

namespace mn {
class Communicator;
}

namespace mn::app {

/// Returns work(). If this rank runs out of memory, on the CPU or on a GPU, throws a UsageError that names the largest
/// parts of the training state and an option that makes the largest part smaller. `model` returns the model, or null
/// before there is a model.
[[nodiscard]] int explain_shortage(const CommonOptions& common, const Communicator& comm,
                                   const std::function<const torch::nn::Module*()>& model,
                                   const std::function<int()>& work);

}  // namespace mn::app
