/// Network in network for ImageNet (Lin et al. 2013, arXiv:1312.4400).
#pragma once

#include <cstdint>
#include <memory>

#include <mn/models/classifier.hpp>

namespace mn::models {

/// Makes the network on the CPU, initialized from libtorch's random numbers.
[[nodiscard]] std::shared_ptr<Classifier> create_nin(std::int64_t num_classes);

}  // namespace mn::models
