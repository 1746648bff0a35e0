/// VGG16 with batch normalization for images of 32 × 32 (Simonyan and Zisserman 2014, arXiv:1409.1556, configuration D;
/// one linear layer after the last pooling, as is usual for CIFAR).
#pragma once

#include <cstdint>
#include <memory>

#include <mn/models/classifier.hpp>

namespace mn::models {

/// Makes the network on the CPU, initialized from libtorch's random numbers.
[[nodiscard]] std::shared_ptr<Classifier> create_small_vgg16(std::int64_t num_classes);

}  // namespace mn::models
