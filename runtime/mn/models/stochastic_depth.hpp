/// Stochastic depth (Huang et al. 2016, arXiv:1603.09382), drawn for each sample as in torchvision and timm.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mn::models {

/// The probability for block `i` of `blocks` blocks: it rises in equal steps from 0 in the first block to `last` in the
/// last block.
[[nodiscard]] double skip_probability(double last, std::int64_t i, std::int64_t blocks);

/// Sets each sample's branch to 0 with probability `skip` < 1, and divides the other branches by 1 − skip, which keeps
/// the mean. `branch` is (N, …).
[[nodiscard]] at::Tensor skip_branches(const at::Tensor& branch, double skip);

}  // namespace mn::models
