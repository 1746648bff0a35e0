/// Residual networks (He et al. 2015, arXiv:1512.03385; the stride of a bottleneck in its 3×3 convolution).
#pragma once

#include <cstdint>
#include <memory>

#include "models/classifier.hpp"

namespace mn::jobs {

[[nodiscard]] std::shared_ptr<Classifier> create_resnet18(std::int64_t num_classes);
[[nodiscard]] std::shared_ptr<Classifier> create_resnet50(std::int64_t num_classes);

}  // namespace mn::jobs
