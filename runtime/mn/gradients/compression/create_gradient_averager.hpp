/// Makes the GradientAverager for each kind of compression.
#pragma once

#include <memory>
#include <vector>

#include <mn/core/trace.hpp>
#include <mn/gradients/compression/compression_options.hpp>
#include <mn/gradients/compression/gradient_averager.hpp>

namespace mn {

/// Makes the object that averages the gradients of `parameters` over ranks. If there is only one rank, the object
/// compresses nothing.
[[nodiscard]] std::unique_ptr<GradientAverager> create_gradient_averager(const CompressionOptions& options,
                                                                         const std::vector<at::Tensor>& parameters,
                                                                         const Communicator& comm,
                                                                         std::shared_ptr<Trace> trace);

}  // namespace mn
