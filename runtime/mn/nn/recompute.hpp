/// Activation checkpointing: less memory for more computing.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// A part of a network's forward pass.
using Segment = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// Returns segment(inputs) without keeping the segment's activations. Backward runs the segment again, with equal
/// random numbers and equal autocast, so gradients are equal bit for bit (Chen et al. 2016, arXiv:1604.06174;
/// torch.utils.checkpoint with use_reentrant=True). This costs a second forward pass of the segment; only the inputs
/// and the output stay in memory. `segment` must outlive the backward and compute alike in each call: it may count
/// nothing and change no buffer (running statistics of batch normalization would move twice). Parameters in the segment
/// get their gradients, also if communication overlaps the backward. Without gradient mode (evaluation), only calls
/// segment(inputs). Sends nothing to other ranks.
[[nodiscard]] at::Tensor recompute_activations(Segment segment, std::vector<at::Tensor> inputs);

/// recompute_activations() of a segment with one input.
[[nodiscard]] inline at::Tensor recompute_activations(std::function<at::Tensor(const at::Tensor&)> segment,
                                                      const at::Tensor& input) {
  return recompute_activations(Segment([segment = std::move(segment)](const std::vector<at::Tensor>& inputs) {
                                 return segment(inputs.front());
                               }),
                               {input});
}

}  // namespace mn
