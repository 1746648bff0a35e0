/// Activation checkpointing: less memory for more computing.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// A part of a network's forward pass.
using Segment = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// segment(inputs), whose inner activations are not kept: backward computes them again, with the same random numbers
/// and the same autocast, so that gradients are the same bits (Chen et al. 2016, arXiv:1604.06174;
/// torch.utils.checkpoint with use_reentrant=True). Costs one more forward pass of the segment, and saves all of its
/// memory but inputs and output. `segment` must compute the same each time and outlive the backward: it counts nothing
/// and changes no buffer (batch normalization's running statistics would move twice). Parameters used in it get
/// gradients as ever, also with overlap. Without gradients (evaluation) it is segment(inputs). Local.
[[nodiscard]] at::Tensor recompute_activations(Segment segment, std::vector<at::Tensor> inputs);

/// The same for one input.
[[nodiscard]] inline at::Tensor recompute_activations(std::function<at::Tensor(const at::Tensor&)> segment,
                                                      const at::Tensor& input) {
  return recompute_activations(Segment([segment = std::move(segment)](const std::vector<at::Tensor>& inputs) {
                                 return segment(inputs.front());
                               }),
                               {input});
}

}  // namespace mn
