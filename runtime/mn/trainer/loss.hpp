/// Defines the loss of a minibatch, and the type of loss functions.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/loader/batch.hpp>
#include <mn/trainer/summary.hpp>

namespace mn {

/// The loss of one minibatch: a mean over samples or other items, and the weight of this mean.
struct Loss {
  /// Makes a loss from the mean over the samples of the minibatch. If the samples have weights, the weight of the mean
  /// is Batch::weight.
  Loss(at::Tensor mean) : value(std::move(mean)) {}  // NOLINT: meant to be implicit
  /// Makes a loss from a mean over `over` items, for example tokens without padding, or pixels with a label. If `over`
  /// is 0, the mean may be NaN. If the loss function makes collective calls, the mean must not be NaN even then,
  /// because its gradients reach other ranks.
  Loss(at::Tensor mean, double over) : value(std::move(mean)), weight(over) {}

  at::Tensor value;                   ///< one element
  std::optional<double> weight = {};  ///< at least 0; no value: Batch::loss_weight() is used
  /// Returns the weight with which the loss counts in updates and reports.
  [[nodiscard]] double weight_in(const Batch& batch) const { return weight.value_or(batch.loss_weight()); }
};

/// Returns the minibatch's mean loss, a tensor or a Loss. The log shows it as "main/loss". Metrics that the function
/// adds to `report` become "main/NAME"; the weight of a metric's mean is the number of its items. With
/// TrainerOptions::accumulate, an iteration calls the function several times. The function is not called for a
/// minibatch of 0 samples. If the function makes collective calls, a minibatch of 0 samples is an error that names the
/// rank.
using ComputeLoss = std::function<Loss(const Batch& batch, Summary& report)>;

}  // namespace mn
