/// Normalizes a minibatch, alone or with the minibatches of all ranks, for batch_norm.hpp and create_mnbn_model().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/nn/channel_moments.hpp>

namespace mn {

/// Whose moments normalize a minibatch.
enum class MomentsOf : std::uint8_t {
  kMinibatch,  ///< this rank's values; the running statistics move towards them
  kRanks,      ///< all ranks' values; the running statistics move towards them. Forward and backward are collective
  kRunning,    ///< the running statistics, which stay as they are (evaluation)
};

struct BatchNormSettings {
  MomentsOf moments = MomentsOf::kRanks;
  std::shared_ptr<Communicator> comm;  ///< for kRanks
  double eps = 1e-5;
  bool relu = false;  ///< negative results become 0
};

/// Returns the normalized `input` (N, C, …), multiplied by `weight` (C) if it has a value, plus `bias` (C) and `added`
/// (of the input's shape) if they have values. MultiNodeBatchNorm describes the weights of losses and the cost. Throws
/// ArgumentError if shapes or devices do not match, or if kMinibatch gets one value of each channel.
[[nodiscard]] at::Tensor normalize_minibatch(const at::Tensor& input, const std::optional<at::Tensor>& added,
                                             const std::optional<at::Tensor>& weight,
                                             const std::optional<at::Tensor>& bias, const RunningMoments& running,
                                             const BatchNormSettings& settings);

}  // namespace mn
