/// The loss of jobs/gpt.
#pragma once

#include <ATen/core/Tensor.h>

#include <mn/app/app.hpp>
#include <mn/models/language_model.hpp>

namespace mn::jobs {

/// How jobs/gpt computes the loss.
struct LossOptions {
  bool recompute = false;      ///< backward computes the layers' activations again
  double label_smoothing = 0;  ///< TokenLossOptions::label_smoothing, in training
  double z_loss = 0;           ///< TokenLossOptions::z_loss, in training

  /// True if the loss of training is the mean of −log p(token).
  [[nodiscard]] bool is_plain() const noexcept { return label_smoothing == 0 && z_loss == 0; }
};

/// Returns the mean loss over the target tokens, in nats; in training, with experts, plus the losses of their routers.
/// In packed samples the field "documents" marks the tokens that are targets, and the loss is weighted by their
/// number. Also reports the bits per byte of the targets' text, unless training has another loss than theirs, and with
/// experts the load-balancing loss. `bytes_of` has the number of bytes of each token of the vocabulary.
[[nodiscard]] Loss loss_of(models::LanguageModel& model, const Batch& batch, const at::Tensor& bytes_of,
                           const LossOptions& options, Summary& report);

}  // namespace mn::jobs
