/// A minibatch's loss, and the function that computes it.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/loader/batch.hpp>
#include <mn/trainer/summary.hpp>

namespace mn {

/// A minibatch's loss, a mean, and over how much it is one.
struct Loss {
  /// A mean over the minibatch's samples, or over what Batch::weight says.
  Loss(at::Tensor mean) : value(std::move(mean)) {}  // NOLINT: meant to be implicit
  /// A mean over something else, which differs between minibatches: tokens without padding, pixels with a label. Over
  /// nothing it may be NaN, but for a loss that makes collective calls, whose gradients other ranks get.
  Loss(at::Tensor mean, double over) : value(std::move(mean)), weight(over) {}

  at::Tensor value;                   ///< one element
  std::optional<double> weight = {};  ///< at least 0
  /// In updates and in reports.
  [[nodiscard]] double weight_in(const Batch& batch) const { return weight.value_or(batch.loss_weight()); }
};

/// Returns the minibatch's mean loss, a tensor or a Loss; it becomes "main/loss". Metrics added to `report`, with what
/// they are means over as weight, become "main/NAME". Called several times an iteration where
/// TrainerOptions::accumulate says so, and not for a minibatch of 0 samples: if the loss makes collective calls, such a
/// minibatch is an error, which names the rank.
using ComputeLoss = std::function<Loss(const Batch& batch, Summary& report)>;

}  // namespace mn
