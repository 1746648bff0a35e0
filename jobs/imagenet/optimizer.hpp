/// How jobs/imagenet updates the network.
#pragma once

#include <cstdint>
#include <memory>

#include <torch/optim/optimizer.h>

#include <mn/train/schedules.hpp>

#include "imagenet/options.hpp"

namespace mn::jobs {

[[nodiscard]] std::unique_ptr<torch::optim::Optimizer> make_optimizer(const ImagenetOptions& options,
                                                                      const torch::nn::Module& model);

/// The rate over the whole training on `ranks` ranks.
[[nodiscard]] Schedule make_schedule(const ImagenetOptions& options, int ranks, std::int64_t steps_per_epoch);

}  // namespace mn::jobs
