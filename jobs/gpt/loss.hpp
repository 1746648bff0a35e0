/// The loss of jobs/gpt.
#pragma once

#include <ATen/core/Tensor.h>

#include <mn/app/app.hpp>
#include <mn/models/language_model.hpp>

namespace mn::jobs {

/// Returns the mean loss over the target tokens, in nats; in training, with experts, plus the losses of their routers.
/// Also reports the bits per byte of the targets' text, and with experts the load-balancing loss.
/// `bytes_of` has the number of bytes of each token of the vocabulary.
[[nodiscard]] at::Tensor loss_of(models::LanguageModel& model, const Batch& batch, const at::Tensor& bytes_of,
                                 bool recompute, Summary& report);

}  // namespace mn::jobs
