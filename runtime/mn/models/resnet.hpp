/// Residual networks (He et al. 2015, arXiv:1512.03385; the stride of a bottleneck in its 3×3 convolution).
#pragma once

#include <cstdint>
#include <memory>

#include <mn/models/classifier.hpp>

namespace mn::models {

/// Blocks of two 3×3 convolutions. On the CPU, initialized from libtorch's random numbers.
[[nodiscard]] std::shared_ptr<Classifier> create_resnet18(std::int64_t num_classes);
/// Blocks of 1×1, 3×3 and 1×1 convolutions. On the CPU, initialized from libtorch's random numbers.
[[nodiscard]] std::shared_ptr<Classifier> create_resnet50(std::int64_t num_classes);
/// ResNet-18 for images of 32 × 32: begins with a 3×3 convolution of stride 1, without pooling. On the CPU, initialized
/// from libtorch's random numbers.
[[nodiscard]] std::shared_ptr<Classifier> create_small_resnet18(std::int64_t num_classes);

}  // namespace mn::models
