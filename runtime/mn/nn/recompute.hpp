/// Activation checkpointing, which saves memory and costs time.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// A part of a network's forward pass.
using Segment = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// Returns segment(inputs) without storing the segment's activations. Backward runs the segment again, with the same
/// random numbers and autocast; therefore gradients equal those without recomputation, bit for bit (Chen et al. 2016,
/// arXiv:1604.06174; torch.utils.checkpoint with use_reentrant=True). This costs a second forward pass of the segment;
/// only the inputs and the output stay in memory. Everything that `segment` refers to must outlive the backward. The
/// segment must compute the same in each call: it must not count calls or change buffers (running statistics of batch
/// normalization would be updated twice). Parameters in the segment get their gradients, even if communication overlaps
/// the backward. Without gradient mode (evaluation), only calls segment(inputs). Sends nothing to other ranks.
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
