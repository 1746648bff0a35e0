/// The loss of jobs/gpt.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include <mn/app/app.hpp>
#include <mn/models/gpt.hpp>

namespace mn::jobs {

/// Returns the mean over R rows of −log softmax(logits)[target], computed in float32. Logits are (R, V) of any float
/// type; targets are (R), int64.
///
/// The result equals torch's cross_entropy of logits.to(float32), but no float32 copy of all logits is made. The
/// gradient is computed together with the loss, a few rows at a time, and stored in the logits' type. `elements` limits
/// the number of logits that are processed at a time. The result can be differentiated only once. Source of the idea:
/// Hsu et al. 2024, Liger Kernel, arXiv:2410.10989.
[[nodiscard]] at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets,
                                    std::int64_t elements = std::int64_t{1} << 26);

/// The mean loss over the target tokens, in nats. Also reports the bits per byte of the targets' text. `bytes_of`
/// [vocabulary] has the number of bytes of each token.
[[nodiscard]] at::Tensor loss_of(models::Gpt& model, const Batch& batch, const at::Tensor& bytes_of, bool recompute,
                                 Summary& report);

}  // namespace mn::jobs
