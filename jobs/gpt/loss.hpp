/// The loss of jobs/gpt.
#pragma once

#include <ATen/core/Tensor.h>

#include <mn/app/app.hpp>
#include <mn/models/gpt.hpp>

namespace mn::jobs {

/// Mean loss over the targets, in nats; reports bits per byte of the text that they stand for. `bytes_of`:
/// [vocabulary] the bytes of each token.
[[nodiscard]] at::Tensor loss_of(models::Gpt& model, const Batch& batch, const at::Tensor& bytes_of, bool recompute,
                                 Summary& report);

}  // namespace mn::jobs
