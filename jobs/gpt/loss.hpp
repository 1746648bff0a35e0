/// The loss of jobs/gpt.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include <mn/app/app.hpp>
#include <mn/models/gpt.hpp>

namespace mn::jobs {

/// (R, V) logits of any float type, (R) int64 targets → the mean of −log softmax(logits)[target], computed in float32.
///
/// Equals torch's cross_entropy of logits.to(float32), without a float32 copy of all logits: the gradient is computed
/// with the loss, a few rows at a time, and kept in the logits' type. `elements` limits the number of logits that are
/// handled at a time. The result can be differentiated only once. Source of the idea: Hsu et al. 2024, Liger Kernel,
/// arXiv:2410.10989.
[[nodiscard]] at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets,
                                    std::int64_t elements = std::int64_t{1} << 26);

/// Mean loss over the target tokens, in nats; reports bits per byte of the targets' text. `bytes_of`: [vocabulary],
/// number of bytes of each token.
[[nodiscard]] at::Tensor loss_of(models::Gpt& model, const Batch& batch, const at::Tensor& bytes_of, bool recompute,
                                 Summary& report);

}  // namespace mn::jobs
