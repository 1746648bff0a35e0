/// The loss of jobs/gpt.
#pragma once

#include <ATen/core/Tensor.h>

#include <mn/app/app.hpp>
#include <mn/models/gpt.hpp>

namespace mn::jobs {

/// Mean loss over the target tokens, in nats; reports bits per byte of the targets' text. `bytes_of`: [vocabulary],
/// number of bytes of each token.
[[nodiscard]] at::Tensor loss_of(models::Gpt& model, const Batch& batch, const at::Tensor& bytes_of, bool recompute,
                                 Summary& report);

}  // namespace mn::jobs
